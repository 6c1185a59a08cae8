// The two products of low-rank updates. Each output is summed in one order, independent of the other rows:
// the rows of a thread block only share the weights that it loads.
#include <cmath>
#include <span>

#include "cuda/low_rank/eight_values.cuh"
#include "cuda/low_rank/low_rank.h"
#include "cuda/low_rank/low_rank_table.h"
#include "cuda/primitives/reduce.cuh"

namespace outrider::cuda {
namespace {

/// The number of rows per thread block, if any update has more than one.
constexpr int kMostRowsTogether = 4;

/// inner[row, rank] = scale * (down[rank] . input[row]); a thread block computes kRankAlignment ranks.
///
/// A warp processes every kWarps-th range of kDownBlock inputs, for all of these ranks at once: kLanes lanes
/// share a rank, and each has eight of the inputs. The sums of the lanes are added in a tree, then those of
/// the warps in order.
template <typename T, typename U, int kRows>
struct Down {
    static constexpr int kThreads = 512;
    static constexpr int kBlocksPerMultiprocessor = 1;
    static constexpr int kWarps = kThreads / kWarp;
    static constexpr int kLanes = kDownBlock / kValues;
    static constexpr int kBlocksAtOnce = kRows == 1 ? 8 : 2;  // blocks whose loads are in flight together
    static_assert(kLanes * kRankAlignment == kWarp, "a warp reads a whole block");

    LowRankTable table;

    static size_t shared_bytes() { return kWarps * kRows * kRankAlignment * sizeof(float); }

    /// The number of thread blocks that compute an update.
    static int blocks_of(const LowRankEntry& entry) {
        return (entry.count + kRows - 1) / kRows * (entry.weight.rank / kRankAlignment);
    }

    __device__ void operator()(const Block& block) const {
        const LowRankEntry& entry = table.entries[table.entry_of(block.index)];
        const int index = static_cast<int>(block.index) - entry.first_block;
        const int rank_blocks = entry.weight.rank / kRankAlignment;
        const int first_rank = index % rank_blocks * kRankAlignment;
        const int first_row = index / rank_blocks * kRows;
        float sums[kRows] = {};
        multiply(block, entry, first_rank, first_row, sums);
        add_up(block, entry, first_rank, first_row, sums);
    }

    /// Computes a lane's part of each row's product with one rank.
    __device__ void multiply(const Block& block, const LowRankEntry& entry, int first_rank, int first_row,
                             float (&sums)[kRows]) const {
        const int64_t stride = entry.weight.in_stride;
        const auto* down =
            static_cast<const T*>(entry.weight.down) + first_rank * stride + block.lane() * kValues;
        const U* inputs[kRows];
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            inputs[row] = static_cast<const U*>(table.input.data) +
                          entry.row(first_row + row) * table.input.stride + block.lane() % kLanes * kValues;
        }
#pragma unroll(kBlocksAtOnce)
        for (int64_t input = block.warp() * kDownBlock; input < stride; input += kWarps * kDownBlock) {
            const EightValues weights = load_eight(down + input * kRankAlignment);
#pragma unroll
            for (int row = 0; row < kRows; ++row) {
                const EightValues values = load_eight(inputs[row] + input);
#pragma unroll
                for (int each = 0; each < kValues; ++each) {
                    sums[row] = fmaf(values.at[each], weights.at[each], sums[row]);
                }
            }
        }
    }

    /// Adds up the parts, and stores the sums.
    __device__ void add_up(const Block& block, const LowRankEntry& entry, int first_rank, int first_row,
                           const float (&sums)[kRows]) const {
        auto* of_warps = reinterpret_cast<float*>(block.shared);  // [kWarps, kRows, kRankAlignment]
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            const float sum = reduce_warp<kLanes>(sums[row], Sum());
            if (block.lane() % kLanes == 0) {
                of_warps[(block.warp() * kRows + row) * kRankAlignment + block.lane() / kLanes] = sum;
            }
        }
        block.synchronize();
        const int row = first_row + block.thread / kRankAlignment;
        if (block.thread < kRows * kRankAlignment && row < entry.count) {
            float total = 0.0f;
            for (int warp = 0; warp < kWarps; ++warp) {
                total += of_warps[warp * kRows * kRankAlignment + block.thread];
            }
            const int rank = first_rank + block.thread % kRankAlignment;
            entry.inner[int64_t{row} * entry.weight.rank + rank] = entry.weight.scale * total;
        }
    }
};

/// out[row, column] += the sum over ranks, in order, of inner[row, rank] * up[rank, column]; a thread
/// computes eight neighbouring columns.
template <typename T, int kRows>
struct Up {
    static constexpr int kThreads = 64;
    static constexpr int kBlocksPerMultiprocessor = 6;
    static constexpr int kColumns = kThreads * kValues;
    static_assert(kRankAlignment == kValues, "ranks are read as many at a time");

    LowRankTable table;

    static size_t shared_bytes() { return 0; }

    OUTRIDER_HOST_DEVICE static int column_blocks(const LowRankEntry& entry) {
        return (entry.weight.columns + kColumns - 1) / kColumns;
    }

    /// The number of thread blocks that compute an update.
    static int blocks_of(const LowRankEntry& entry) {
        return (entry.count + kRows - 1) / kRows * column_blocks(entry);
    }

    __device__ void operator()(const Block& block) const {
        const LowRankEntry& entry = table.entries[table.entry_of(block.index)];
        const int index = static_cast<int>(block.index) - entry.first_block;
        const int column = index % column_blocks(entry) * kColumns + block.thread * kValues;
        const int first_row = index / column_blocks(entry) * kRows;
        if (column < entry.weight.columns) {
            EightValues sums[kRows] = {};
            multiply(entry, column, first_row, sums);
            add_to_rows(entry, column, first_row, sums);
        }
    }

    __device__ void multiply(const LowRankEntry& entry, int column, int first_row,
                             EightValues (&sums)[kRows]) const {
        const int in_block = column % kUpAlignment;
        const auto* up = static_cast<const T*>(entry.weight.up) +
                         int64_t{column - in_block} * entry.weight.rank + in_block;
        for (int first = 0; first < entry.weight.rank; first += kValues) {
            EightValues inner[kRows];
#pragma unroll
            for (int row = 0; row < kRows; ++row) {
                inner[row] =
                    load_eight(entry.inner + entry.place(first_row + row) * entry.weight.rank + first);
            }
#pragma unroll
            for (int rank = 0; rank < kValues; ++rank) {
                const EightValues weights = load_eight(up + int64_t{first + rank} * kUpAlignment);
#pragma unroll
                for (int row = 0; row < kRows; ++row) {
#pragma unroll
                    for (int each = 0; each < kValues; ++each) {
                        sums[row].at[each] = fmaf(inner[row].at[rank], weights.at[each], sums[row].at[each]);
                    }
                }
            }
        }
    }

    __device__ void add_to_rows(const LowRankEntry& entry, int column, int first_row,
                                const EightValues (&sums)[kRows]) const {
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            if (first_row + row < entry.count) {
                float* out = table.out + entry.row(first_row + row) * table.out_stride +
                             entry.weight.first_column + column;
                add_eight(out, sums[row], entry.weight.columns - column);
            }
        }
    }
};

template <typename Kernel>
void launch_all(const Stream& stream, LowRankTable& table) {
    const int64_t blocks = table.share_blocks(Kernel::blocks_of);
    for_each_block(stream, blocks, Kernel::shared_bytes(), Kernel{table});
}

template <int kRows>
void launch_both(const Stream& stream, LowRankTable& table) {
    const bool is_f32 = table.entries[0].weight.format == Format::f32;
    if (is_f32) {
        launch_all<Down<float, float, kRows>>(stream, table);
        launch_all<Up<float, kRows>>(stream, table);
        return;
    }
    if (table.input.format == Format::f32) {
        launch_all<Down<uint16_t, float, kRows>>(stream, table);
    } else {
        launch_all<Down<uint16_t, uint16_t, kRows>>(stream, table);
    }
    launch_all<Up<uint16_t, kRows>>(stream, table);
}

}  // namespace

/// Chooses the number of rows that share loaded weights by speed only: the bits are the same.
void low_rank(const Stream& stream, const LowRank& op) {
    for (size_t first = 0; first < op.updates.size(); first += kMostUpdates) {
        LowRankTable table(op);
        const size_t count = std::min<size_t>(kMostUpdates, op.updates.size() - first);
        for (const LowRankUpdate& update : std::span(op.updates).subspan(first, count)) {
            table.add(update);
        }
        if (table.most_rows() > 1) {
            launch_both<kMostRowsTogether>(stream, table);
        } else {
            launch_both<1>(stream, table);
        }
    }
}

}  // namespace outrider::cuda
