// SlicedProduct: the matrix product on tensor cores for few activation rows. What takes its time there is to
// read the weights, so as much of them as possible is on its way at any moment.
//
// A block's warps are the segments of the same outputs. Each has a ring of stages in the block's memory, into
// which weights and activations are copied in the order of the instruction's registers, and which goes on
// from one of the block's outputs to the next: only where a segment's sum meets the others does a warp wait.
// The first weights are on their way before the kernel that computes the activations has ended. (Registers
// would not do: a warp can wait for six loads apart, and a wait for the oldest of more is one for the
// newest.)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/primitives/copies.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/product/product_output.cuh"
#include "cuda/product/segments.cuh"
#include "cuda/product/tile_sums.cuh"

namespace outrider::cuda {

/// How a product of few rows is cut: M is output features and N activation rows, as in the instruction's
/// name, mma.m16n8k16. All rows are in one N.
struct SlicedShape {
    int m_tiles = 1;                   // of an item of work, 16 output features each
    int n_tiles = 1;                   // 8 activation rows each
    int kilobytes = kSharedKilobytes;  // of a block's memory

    static constexpr int kSharedKilobytes = 96;  // two blocks have room on Hopper, and one on smaller GPUs
    static constexpr int kWholeKilobytes = 200;  // one block has room, on Hopper
};

template <typename Tile, SlicedShape kShape>
struct SlicedProduct {
    static constexpr int kMTiles = kShape.m_tiles;
    static constexpr int kNTiles = kShape.n_tiles;
    static constexpr int kBlockMTiles = kMTiles;
    static constexpr int kBlockRows = kNTiles * kNTileRows;
    static constexpr int kThreads = kSegments * kWarp;
    static constexpr int kBlocksPerMultiprocessor = kShape.kilobytes > SlicedShape::kSharedKilobytes ? 1 : 2;
    using Sums = TileSums<Tile, kMTiles, kNTiles>;
    static constexpr int kOutputs = Sums::kValues * kWarp;
    static constexpr int kSumsBytes = kSegments * kOutputs * static_cast<int>(sizeof(float));

    static constexpr bool kHasLittleRoom = kShape.kilobytes <= SlicedShape::kSharedKilobytes && kMTiles > 1;

    // A stage is so many tiles along K, of weights and activations.
    static constexpr int kTilesOfStage = Tile::kBytes >= 1024                    ? 1
                                         : Tile::kBytes >= 512 || kHasLittleRoom ? 2
                                                                                 : 4;
    static constexpr int kWeightBytes = kTilesOfStage * static_cast<int>(Tile::kBytes);  // of an M tile
    static constexpr int kInputBytes = kTilesOfStage * kInputTileBytes;                  // of an N tile
    static constexpr int kStageBytes = kMTiles * kWeightBytes + kNTiles * kInputBytes;
    static constexpr int kStages =
        std::min(12, ((kShape.kilobytes << 10) - kSumsBytes) / kSegments / kStageBytes);
    static_assert(kStages >= 2, "one stage is copied while another is multiplied");
    static constexpr int kRingBytes = kStages * kStageBytes;
    static constexpr size_t kSharedBytes = kSegments * kRingBytes + kSumsBytes;

    Product op;
    WeightView weight;
    int items;   // of work: outputs of kMTiles by kNTiles tiles
    int blocks;  // that share them

    /// What a lane copies from next: stage by stage of its segment, and then of the next item's.
    struct Source {
        int item;
        int tile;
        const char* weights;          // of the item's first M tile
        const char* inputs[kNTiles];  // of the segment
        int weight_bytes[kMTiles];    // of the segment, from the lane's first on
        int input_tiles[kNTiles];     // of the segment
    };

    /// Begins to copy weights while what they are multiplied with is still on its way.
    __device__ void prepare(const Block& block) const {
        const Segment segment = segment_of(weight, block.warp());
        Source from = source_of(segment, first_item(block, segment), block.lane());
        char* const ring = block.shared + block.warp() * kRingBytes;
#pragma unroll
        for (int stage = 0; stage < kStages - 1; ++stage) {
            copy_weights(from, ring + stage * kStageBytes, block.lane());
            advance(from, segment, block.lane());
        }
    }

    __device__ void operator()(const Block& block) const {
        const Segment segment = segment_of(weight, block.warp());
        const int lane = block.lane();
        Source from = source_of(segment, first_item(block, segment), lane);
        char* const ring = block.shared + block.warp() * kRingBytes;
#pragma unroll
        for (int stage = 0; stage < kStages - 1; ++stage) {
            copy_inputs(from, ring + stage * kStageBytes, lane);
            close_copies();
            advance(from, segment, lane);
        }
        int slot = 0;
        int next_slot = (kStages - 1) * kStageBytes;
#pragma unroll 1
        for (int item = static_cast<int>(block.index); item < items; item += blocks) {
            Sums sums = {};
#pragma unroll 1
            for (int tile = 0; tile < segment.tiles; tile += kTilesOfStage) {
                wait_for_copies<kStages - 2>();
                synchronize_warp();  // and the stage before has been read
                copy_weights(from, ring + next_slot, lane);
                copy_inputs(from, ring + next_slot, lane);
                close_copies();
                advance(from, segment, lane);
                add_stage(ring + slot, lane, segment.tiles - tile, sums);
                slot = slot == (kStages - 1) * kStageBytes ? 0 : slot + kStageBytes;
                next_slot = next_slot == (kStages - 1) * kStageBytes ? 0 : next_slot + kStageBytes;
            }
            finish(block, item, sums);
        }
    }

  private:
    /// None where the segment is empty.
    __device__ int first_item(const Block& block, const Segment& segment) const {
        return segment.tiles > 0 ? static_cast<int>(block.index) : items;
    }

    __device__ Source source_of(const Segment& segment, int item, int lane) const {
        Source from;
        from.item = item;
        from.tile = 0;
        from.weights = weight.data + (item * kMTiles * m_tile_bytes() + segment.first * Tile::kBytes) +
                       lane * kCopyBytes;
        limit_weights(from, segment, lane);
#pragma unroll
        for (int i = 0; i < kNTiles; ++i) {
            const int row = i * kNTileRows + lane / 4;
            const bool is_there = row < op.rows;
            from.inputs[i] = static_cast<const char*>(op.input.data) +
                             2 * ((is_there ? row : 0) * op.input.stride +
                                  int64_t{segment.first} * kTileInputs + lane % 4 * 8);
            from.input_tiles[i] = is_there ? segment.tiles : 0;
        }
        return from;
    }

    __device__ int64_t m_tile_bytes() const { return k_tiles_of(weight) * Tile::kBytes; }

    __device__ void limit_weights(Source& from, const Segment& segment, int lane) const {
#pragma unroll
        for (int i = 0; i < kMTiles; ++i) {
            const bool is_there = from.item * kMTiles + i < static_cast<int>(m_tiles_of(weight));
            from.weight_bytes[i] =
                is_there ? segment.tiles * static_cast<int>(Tile::kBytes) - lane * kCopyBytes : 0;
        }
    }

    __device__ void advance(Source& from, const Segment& segment, int lane) const {
        from.tile += kTilesOfStage;
        if (from.tile >= segment.tiles && from.item < items) {
            from.tile = 0;
            from.item += blocks;
            from.weights += blocks * kMTiles * m_tile_bytes();
            limit_weights(from, segment, lane);
        }
    }

    /// A stage of weights; zeros after the segment's end, and where there is no such M tile.
    __device__ void copy_weights(const Source& from, char* to, int lane) const {
        constexpr int kRound = kWarp * kCopyBytes;
        if (from.item >= items) {
            return;
        }
        const int offset = from.tile * static_cast<int>(Tile::kBytes);
#pragma unroll
        for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
            for (int first = 0; first < kWeightBytes; first += kRound) {
                if (first + kRound <= kWeightBytes || lane * kCopyBytes < kWeightBytes - first) {
                    begin_copy<true>(to + i * kWeightBytes + first + lane * kCopyBytes,
                                     from.weights + i * m_tile_bytes() + offset + first,
                                     offset + first < from.weight_bytes[i]);
                }
            }
        }
    }

    /// The activations of a stage; zeros after the segment's end, and where there is no such row.
    __device__ void copy_inputs(const Source& from, char* to, int lane) const {
        if (from.item >= items) {
            return;
        }
        to += kMTiles * kWeightBytes + lane * kCopyBytes;
#pragma unroll
        for (int i = 0; i < kNTiles; ++i) {
#pragma unroll
            for (int k = 0; k < kTilesOfStage; ++k) {
                begin_copy<false>(to + i * kInputBytes + k * kInputTileBytes,
                                  from.inputs[i] + (from.tile + k) * (kTileInputs * 2),
                                  from.tile + k < from.input_tiles[i]);
            }
        }
    }

    __device__ static void add_stage(const char* stage, int lane, int tiles, Sums& sums) {
#pragma unroll
        for (int k = 0; k < kTilesOfStage; ++k) {
            if (k < tiles) {
                InputTiles<kNTiles> inputs;
#pragma unroll
                for (int i = 0; i < kNTiles; ++i) {
                    inputs.n_tiles[i] = read_words<4>(stage + kMTiles * kWeightBytes + i * kInputBytes +
                                                      k * kInputTileBytes + lane * kCopyBytes);
                }
#pragma unroll
                for (int i = 0; i < kMTiles; ++i) {
                    sums.add(i,
                             Tile::read(stage + i * kWeightBytes + k * static_cast<int>(Tile::kBytes), lane),
                             inputs);
                }
            }
        }
    }

    /// Adds the segments' sums up in their order.
    __device__ void finish(const Block& block, int item, const Sums& sums) const {
        auto* const shared = reinterpret_cast<float*>(block.shared + kSegments * kRingBytes);
#pragma unroll
        for (int value = 0; value < Sums::kValues; ++value) {
            shared[block.warp() * kOutputs + value * kWarp + block.lane()] = sums.value(value);
        }
        block.synchronize();
        const int segments = num_segments(weight);
        for (int output = block.thread; output < kOutputs; output += kThreads) {
            float total = shared[output];
            for (int segment = 1; segment < segments; ++segment) {
                total += shared[segment * kOutputs + output];
            }
            const OutputPlace place = Sums::place(output / kWarp, output % kWarp);
            write_output<Tile>(op, weight, place.row, item * kMTiles * kTileFeatures + place.feature, total);
        }
        block.synchronize();  // the next item's sums come to the same place
    }
};

template <typename Tile, SlicedShape kShape>
void launch_sliced(const Stream& stream, const Product& op, const WeightView& weight) {
    using Kernel = SlicedProduct<Tile, kShape>;
    const auto items = static_cast<int>((m_tiles_of(weight) + kShape.m_tiles - 1) / kShape.m_tiles);
    const int blocks = std::min(items, stream.multiprocessors() * Kernel::kBlocksPerMultiprocessor);
    for_each_block(stream, blocks, Kernel::kSharedBytes, Kernel{op, weight, items, blocks});
}

/// Chooses a shape by speed alone. Taller items read fewer activations, if there are enough of them; a block
/// for each multiprocessor has as much on its way as two, if it has the memory.
template <typename Tile>
void sliced_product(const Stream& stream, const Product& op, const WeightView& weight) {
    constexpr int kWhole = SlicedShape::kWholeKilobytes;
    const int multiprocessors = stream.multiprocessors();
    const bool is_low = m_tiles_of(weight) <= 2 * multiprocessors &&
                        stream.block_memory() >= size_t{SlicedShape::kWholeKilobytes} << 10;
    const bool is_tall = m_tiles_of(weight) >= 8 * multiprocessors;
    if (op.rows > kNTileRows) {
        is_low ? launch_sliced<Tile, SlicedShape{2, 2, kWhole}>(stream, op, weight)
               : launch_sliced<Tile, SlicedShape{2, 2}>(stream, op, weight);
    } else if (is_low) {
        launch_sliced<Tile, SlicedShape{2, 1, kWhole}>(stream, op, weight);
    } else if (is_tall || Tile::kHasGroupScales) {
        launch_sliced<Tile, SlicedShape{2, 1}>(stream, op, weight);
    } else {
        launch_sliced<Tile, SlicedShape{1, 1}>(stream, op, weight);
    }
}

}  // namespace outrider::cuda
