// The matrix product on tensor cores. Output features are the rows of the instruction (M), activation rows
// its columns (N), which do not meet. K is cut into kSegments segments whatever the number of rows; a
// segment's sum goes through its tiles in order, each tile's two steps in order, and the segments' sums are
// added up in order. So every output is the same sequence of operations in each ProductShape: they differ in
// how many outputs a warp holds and in where the segments meet.
//
// No operand passes through shared memory: both come as the registers that the instruction takes, in loads of
// 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/warp.cuh"
#include "cuda/product/product_shape.h"
#include "cuda/weights/tiles.cuh"
#include "outrider/device/operations.h"

namespace outrider::cuda {

constexpr int kNTileRows = 8;  // activation rows of an N tile

template <typename Tile, ProductShape kShape>
struct TileProduct {
    static constexpr bool kIsSlicedK = kShape.is_sliced_k();
    static constexpr int kMTiles = kShape.m_tiles;
    static constexpr int kNTiles = kShape.n_tiles;
    static constexpr int kWarpsN = kShape.warps_n;
    static constexpr int kBlockMTiles = kShape.block_m_tiles();
    static constexpr int kBlockRows = kShape.block_n_tiles() * kNTileRows;
    static constexpr int kThreads = kShape.warps() * kWarp;
    static constexpr int kBlocksPerMultiprocessor = kShape.blocks_per_multiprocessor;
    static constexpr int kValues = kMTiles * kNTiles * 4;  // outputs of a lane
    static constexpr size_t kSharedBytes = size_t{kValues} * kThreads * sizeof(float);
    static constexpr int kInputStages = kNTiles <= 2 ? 2 : 1;  // tiles of activations that are prefetched
    static constexpr int kWeightStages =
        (kShape.prefetch_kilobytes << 10) / (Tile::kBytes > 512 ? Tile::kBytes : 512);
    static_assert(kWeightStages % kInputStages == 0, "both go around in the same loop");

    Product op;
    WeightView weight;

    /// The outputs of one warp, from here on.
    struct WarpTile {
        int64_t first_m_tile;
        int64_t first_row;
        int lane;
    };
    struct Sums {
        float values[kMTiles][kNTiles][4];
    };
    struct Weights {
        typename Tile::Words m_tiles[kMTiles];
    };
    struct Inputs {
        Words<4> n_tiles[kNTiles];
    };

    __device__ void operator()(const Block& block) const {
        const int64_t row_blocks = (op.rows + kBlockRows - 1) / kBlockRows;
        const int warp = kIsSlicedK ? 0 : block.warp();
        const WarpTile outputs{block.index / row_blocks * kBlockMTiles + warp / kWarpsN * kMTiles,
                               block.index % row_blocks * kBlockRows + warp % kWarpsN * kNTiles * kNTileRows,
                               block.lane()};
        if constexpr (kIsSlicedK) {
            add_segments_of_warps(block, outputs);
        } else {
            add_own_segments(block, outputs);
        }
    }

    __device__ int64_t segment_tiles() const { return (k_tiles_of(weight) + kSegments - 1) / kSegments; }
    /// Segments that are not empty.
    __device__ int num_segments() const {
        return static_cast<int>((k_tiles_of(weight) + segment_tiles() - 1) / segment_tiles());
    }

    __device__ void add_segments_of_warps(const Block& block, const WarpTile& outputs) const {
        constexpr int kOutputs = kValues * kWarp;
        auto* const shared = reinterpret_cast<float*>(block.shared);
        const Sums sums = sum_segment(outputs, block.warp());
#pragma unroll
        for (int value = 0; value < kValues; ++value) {
            shared[block.warp() * kOutputs + value * kWarp + outputs.lane] = of(sums, value);
        }
        block.synchronize();
        const int segments = num_segments();
        for (int output = block.thread; output < kOutputs; output += kThreads) {
            float total = shared[output];
            for (int segment = 1; segment < segments; ++segment) {
                total += shared[segment * kOutputs + output];
            }
            write({outputs.first_m_tile, outputs.first_row, output % kWarp}, output / kWarp, total);
        }
    }

    /// The totals wait in shared memory for the next segment's sums: each thread reads its own.
    __device__ void add_own_segments(const Block& block, const WarpTile& outputs) const {
        auto* const totals = reinterpret_cast<float*>(block.shared) + block.thread;
        const int segments = num_segments();
        for (int segment = 0; segment < segments; ++segment) {
            const Sums sums = sum_segment(outputs, segment);
#pragma unroll
            for (int value = 0; value < kValues; ++value) {
                float& total = totals[value * kThreads];
                total = segment == 0 ? of(sums, value) : total + of(sums, value);
            }
        }
#pragma unroll 4
        for (int value = 0; value < kValues; ++value) {
            write(outputs, value, totals[value * kThreads]);
        }
    }

    __device__ static float of(const Sums& sums, int value) {
        return sums.values[value / 4 / kNTiles][value / 4 % kNTiles][value % 4];
    }

    __device__ void write(const WarpTile& outputs, int value, float total) const {
        const int64_t feature = (outputs.first_m_tile + value / 4 / kNTiles) * kTileFeatures +
                                outputs.lane / 4 + value % 4 / 2 * 8;
        const int64_t row =
            outputs.first_row + value / 4 % kNTiles * kNTileRows + outputs.lane % 4 * 2 + value % 2;
        if (feature < weight.out_features && row < op.rows) {
            if constexpr (Tile::kLargest > 0.0f) {
                total *= weight.scales[feature];
            }
            op.out[row * op.out_stride + feature] = op.bias ? total + op.bias[feature] : total;
        }
    }

    __device__ Sums sum_segment(const WarpTile& outputs, int segment) const {
        const int64_t first = segment * segment_tiles();
        const int64_t all = k_tiles_of(weight);
        const int64_t end = first + segment_tiles() < all ? first + segment_tiles() : all;
        Sums sums = {};
        Weights weights[kWeightStages];
        Inputs inputs[kInputStages];
#pragma unroll
        for (int stage = 0; stage < kWeightStages; ++stage) {
            load_before(end, outputs, first + stage, weights[stage]);
        }
#pragma unroll
        for (int stage = 0; stage < kInputStages; ++stage) {
            load_before(end, outputs, first + stage, inputs[stage]);
        }
#pragma unroll 1
        for (int64_t tile = first; tile < end; tile += kWeightStages) {
#pragma unroll
            for (int stage = 0; stage < kWeightStages; ++stage) {
                if (tile + stage < end) {
                    multiply(weights[stage], inputs[stage % kInputStages], sums);
                }
                load_before(end, outputs, tile + stage + kWeightStages, weights[stage]);
                load_before(end, outputs, tile + stage + kInputStages, inputs[stage % kInputStages]);
            }
        }
        return sums;
    }

    /// M tiles beyond the weights are zeros.
    __device__ void load_before(int64_t end, const WarpTile& outputs, int64_t tile, Weights& weights) const {
        if (tile >= end) {
            return;
        }
#pragma unroll
        for (int m_tile = 0; m_tile < kMTiles; ++m_tile) {
            weights.m_tiles[m_tile] = {};
            if (outputs.first_m_tile + m_tile < m_tiles_of(weight)) {
                const int64_t index = (outputs.first_m_tile + m_tile) * k_tiles_of(weight) + tile;
                weights.m_tiles[m_tile] =
                    Tile::template load<kIsSlicedK>(weight.data + index * Tile::kBytes, outputs.lane);
            }
        }
    }

    /// Rows beyond the activations are zeros.
    __device__ void load_before(int64_t end, const WarpTile& outputs, int64_t tile, Inputs& inputs) const {
        if (tile >= end) {
            return;
        }
        const auto* input =
            static_cast<const uint16_t*>(op.input.data) + tile * kTileInputs + outputs.lane % 4 * 8;
#pragma unroll
        for (int n_tile = 0; n_tile < kNTiles; ++n_tile) {
            const int64_t row = outputs.first_row + n_tile * kNTileRows + outputs.lane / 4;
            inputs.n_tiles[n_tile] = {};
            if (row < op.rows) {
                inputs.n_tiles[n_tile] = load_words<4, false>(input + row * op.input.stride);
            }
        }
    }

    __device__ static void multiply(const Weights& weights, const Inputs& inputs, Sums& sums) {
#pragma unroll
        for (int m_tile = 0; m_tile < kMTiles; ++m_tile) {
            const LeftOperands left = Tile::unpack(weights.m_tiles[m_tile]);
#pragma unroll
            for (int n_tile = 0; n_tile < kNTiles; ++n_tile) {
                const uint32_t (&words)[4] = inputs.n_tiles[n_tile].words;
                float (&of_tile)[4] = sums.values[m_tile][n_tile];
                if constexpr (Tile::kHasGroupScales) {
                    float group[4] = {};
                    multiply_tile(left, words, group);
                    const float upper = Tile::upper_scale(weights.m_tiles[m_tile]);
                    const float lower = Tile::lower_scale(weights.m_tiles[m_tile]);
                    of_tile[0] = fmaf(group[0], upper, of_tile[0]);
                    of_tile[1] = fmaf(group[1], upper, of_tile[1]);
                    of_tile[2] = fmaf(group[2], lower, of_tile[2]);
                    of_tile[3] = fmaf(group[3], lower, of_tile[3]);
                } else {
                    multiply_tile(left, words, of_tile);
                }
            }
        }
    }

    __device__ static void multiply_tile(const LeftOperands& left, const uint32_t (&words)[4],
                                         float (&sums)[4]) {
        mma_m16n8k16(sums, left.steps[0], {words[0], words[1]});
        mma_m16n8k16(sums, left.steps[1], {words[2], words[3]});
    }
};

template <typename Tile, ProductShape kShape>
void launch_product(const Stream& stream, const Product& op, const WeightView& weight, int64_t blocks) {
    using Kernel = TileProduct<Tile, kShape>;
    for_each_block(stream, blocks, Kernel::kSharedBytes, Kernel{op, weight});
}

inline int64_t blocks_of(const ProductShape& shape, const Product& op, const WeightView& weight) {
    const int64_t block_rows = int64_t{shape.block_n_tiles()} * kNTileRows;
    return (m_tiles_of(weight) + shape.block_m_tiles() - 1) / shape.block_m_tiles() *
           ((op.rows + block_rows - 1) / block_rows);
}

inline bool is_for(const ShapeChoice& choice, const Stream& stream, const Product& op,
                   const WeightView& weight) {
    const int64_t half = (stream.multiprocessors() + 1) / 2;
    return op.rows > choice.above_rows &&
           (!choice.only_tall || m_tiles_of(weight) >= 2 * stream.multiprocessors()) &&
           (!choice.must_occupy || blocks_of(choice.shape, op, weight) >= half);
}

/// Launches the kernel of one of kShapeChoices.
template <typename Tile, size_t... kIndices>
void launch_choice(size_t index, const Stream& stream, const Product& op, const WeightView& weight,
                   std::index_sequence<kIndices...>) {
    constexpr auto& kChoices = kShapeChoices<Tile::kHasGroupScales>;
    using Launch = void (*)(const Stream&, const Product&, const WeightView&, int64_t);
    static constexpr Launch kLaunches[] = {&launch_product<Tile, kChoices[kIndices].shape>...};
    kLaunches[index](stream, op, weight, blocks_of(kChoices[index].shape, op, weight));
}

template <typename Tile>
void tile_product(const Stream& stream, const Product& op, const WeightView& weight) {
    constexpr auto& kChoices = kShapeChoices<Tile::kHasGroupScales>;
    size_t index = 0;
    while (!is_for(kChoices[index], stream, op, weight)) {  // the last is for all
        ++index;
    }
    launch_choice<Tile>(index, stream, op, weight, std::make_index_sequence<std::size(kChoices)>());
}

}  // namespace outrider::cuda
