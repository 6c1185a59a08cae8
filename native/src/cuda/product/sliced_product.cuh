// SlicedProduct: the matrix product on tensor cores for few activation rows. Its time is spent on reading the
// weights, so as many loads as possible are kept in flight.
//
// The warps of a block compute the segments of the same outputs. Each has a ring of stages in shared memory,
// into which weights and activations are copied in the order of the instruction's registers; the copies
// continue from one of the block's outputs to the next, so a warp waits for others only to add up the
// segments' sums. The first weights are loaded before the kernel that computes the activations has ended.
// (Registers would not do: a warp can wait for six loads separately, and with more of them a wait for the
// oldest is a wait for the newest.) If the outputs are gates and ups, a block has both of the same columns,
// and writes their activation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/elementwise/gated.cuh"
#include "cuda/primitives/copies.cuh"
#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/product/product_output.cuh"
#include "cuda/product/segments.cuh"
#include "cuda/product/tile_sums.cuh"

namespace outrider::cuda {

/// The shape of a product of few rows. M is output features and N activation rows, as in the instruction's
/// name, mma.m16n8k16. All rows are in one N.
struct SlicedShape {
    int m_tiles = 1;                   // per item of work, 16 output features each
    int n_tiles = 1;                   // 8 activation rows each
    int kilobytes = kSharedKilobytes;  // of shared memory per block
    bool is_gated = false;             // the two M tiles of an item are gates and their ups

    static constexpr int kSharedKilobytes = 96;  // two blocks fit on Hopper, and one on smaller GPUs
    static constexpr int kWholeKilobytes = 200;  // one block fits on Hopper
};

template <typename Tile, SlicedShape kShape>
struct SlicedProduct {
    static constexpr int kMTiles = kShape.m_tiles;
    static constexpr int kNTiles = kShape.n_tiles;
    static constexpr bool kIsGated = kShape.is_gated;
    static_assert(!kIsGated || kMTiles == 2, "a gate has one up");
    using WaitsItself = void;
    static constexpr int kBlockMTiles = kMTiles;
    static constexpr int kBlockRows = kNTiles * kNTileRows;
    static constexpr int kThreads = kSegments * kWarp;
    static constexpr int kBlocksPerMultiprocessor = kShape.kilobytes > SlicedShape::kSharedKilobytes ? 1 : 2;
    using Sums = TileSums<Tile, kMTiles, kNTiles>;
    static constexpr int kOutputs = Sums::kValues * kWarp;
    static constexpr int kWritten = kIsGated ? kOutputs / 2 : kOutputs;
    static constexpr int kSumsBytes = kSegments * kOutputs * static_cast<int>(sizeof(float));

    // A stage holds some tiles along K of weights and activations: few enough that there is room for three
    // stages, and at most about a kilobyte of each M tile.
    static constexpr int kWarpBytes = ((kShape.kilobytes << 10) - kSumsBytes) / kSegments;
    static constexpr int kTileBytes = kMTiles * static_cast<int>(Tile::kBytes) + kNTiles * kInputTileBytes;
    static constexpr int kTilesOfStage =
        std::clamp(kWarpBytes / kTileBytes / 3, 1, 1152 / static_cast<int>(Tile::kBytes));
    static constexpr int kWeightBytes = kTilesOfStage * static_cast<int>(Tile::kBytes);  // per M tile
    static constexpr int kInputBytes = kTilesOfStage * kInputTileBytes;                  // per N tile
    static constexpr int kStageBytes = kMTiles * kWeightBytes + kNTiles * kInputBytes;
    static constexpr int kStages = std::min(12, kWarpBytes / kStageBytes);
    static_assert(kStages >= 2, "one stage is copied while another is multiplied");
    static constexpr int kRingBytes = kStages * kStageBytes;
    static constexpr size_t kSharedBytes = kSegments * kRingBytes + kSumsBytes;

    Product op;
    WeightView weight;
    int items;               // items of work: outputs of kMTiles by kNTiles tiles
    int blocks;              // blocks that share them
    Activate activate = {};  // activation of gates and ups

    /// The place from which a lane copies next: a stage of its segment, or of the next item's.
    struct Source {
        int item;
        int tiles;                     // remaining tiles of the segment
        const char* weights[kMTiles];  // of the next tile
        const char* inputs[kNTiles];   // of the next tile, in the lane's row of each N tile
    };

    __device__ void operator()(const Block& block) const {
        const Segment segment = segment_of(weight, block.warp());
        const int lane = block.lane();
        char* const ring = block.shared + block.warp() * kRingBytes;
        begin_weights(block, segment, ring);
        wait_for_previous();
        Source from = source_of(segment, first_item(block, segment), lane);
#pragma unroll
        for (int stage = 0; stage < kStages - 1; ++stage) {
            copy_inputs(from, ring + stage * kStageBytes + lane * kCopyBytes, lane);
            close_copies();
            advance(from, segment, lane);
        }
        char* const last_stage = ring + (kStages - 1) * kStageBytes;
        char* stage = ring;
        char* const first_copy = ring + lane * kCopyBytes;  // place of the lane's own copies
        char* copy = last_stage + lane * kCopyBytes;
#pragma unroll 1
        for (int item = static_cast<int>(block.index); item < items; item += blocks) {
            Sums sums = {};
#pragma unroll 1
            for (int tile = 0; tile < segment.tiles; tile += kTilesOfStage) {
                wait_for_copies<kStages - 2>();
                synchronize_warp();  // and the stage before has been read
                copy_weights(from, copy, lane);
                copy_inputs(from, copy, lane);
                close_copies();
                advance(from, segment, lane);
                if (segment.tiles - tile >= kTilesOfStage) {
                    add_stage<true>(stage, lane, kTilesOfStage, sums);
                } else {
                    add_stage<false>(stage, lane, segment.tiles - tile, sums);
                }
                copy = stage == ring ? first_copy : copy + kStageBytes;
                stage = stage == last_stage ? ring : stage + kStageBytes;
            }
            finish(block, item, sums);
        }
    }

  private:
    /// Starts to copy weights while the activations are still being computed, and prefetches the outputs'
    /// scales and biases.
    __device__ void begin_weights(const Block& block, const Segment& segment, char* ring) const {
        Source from = source_of(segment, first_item(block, segment), block.lane());
#pragma unroll
        for (int stage = 0; stage < kStages - 1; ++stage) {
            copy_weights(from, ring + stage * kStageBytes + block.lane() * kCopyBytes, block.lane());
            advance(from, segment, block.lane());
        }
        const int item = static_cast<int>(block.index) + block.thread * blocks;
        if (item < items) {
#pragma unroll
            for (int i = 0; i < kMTiles; ++i) {
                prefetch_ending<Tile>(op, weight, m_tile_of(item, i) * kTileFeatures);
            }
        }
    }

    __device__ int m_tile_of(int item, int i) const {
        return kIsGated ? item + i * items : item * kMTiles + i;
    }
    /// The block's first item; none if the segment is empty.
    __device__ int first_item(const Block& block, const Segment& segment) const {
        return segment.tiles > 0 ? static_cast<int>(block.index) : items;
    }

    __device__ int64_t m_tile_bytes() const { return k_tiles_of(weight) * Tile::kBytes; }

    /// The row of an N tile that a lane copies.
    __device__ static int row_of(int n_tile, int lane) { return n_tile * kNTileRows + lane / 4; }

    __device__ Source source_of(const Segment& segment, int item, int lane) const {
        Source from;
        from.item = item;
        begin_segment(from, segment, lane);
        return from;
    }

    /// Copies the last M tile or the first row in place of an M tile or row that does not exist; the results
    /// are not used.
    __device__ void begin_segment(Source& from, const Segment& segment, int lane) const {
        const int last = static_cast<int>(m_tiles_of(weight)) - 1;
        from.tiles = from.item < items ? segment.tiles : 0;
#pragma unroll
        for (int i = 0; i < kMTiles; ++i) {
            const int own = m_tile_of(from.item, i);
            from.weights[i] = weight.data + (own < last ? own : last) * m_tile_bytes() +
                              segment.first * Tile::kBytes + lane * kCopyBytes;
        }
#pragma unroll
        for (int i = 0; i < kNTiles; ++i) {
            const int row = row_of(i, lane) < op.rows ? row_of(i, lane) : 0;
            from.inputs[i] =
                static_cast<const char*>(op.input.data) +
                2 * (row * op.input.stride + int64_t{segment.first} * kTileInputs + lane % 4 * 8);
        }
    }

    __device__ void advance(Source& from, const Segment& segment, int lane) const {
        from.tiles -= kTilesOfStage;
#pragma unroll
        for (int i = 0; i < kMTiles; ++i) {
            from.weights[i] += kWeightBytes;
        }
#pragma unroll
        for (int i = 0; i < kNTiles; ++i) {
            from.inputs[i] += kTilesOfStage * kTileInputs * 2;
        }
        if (from.tiles <= 0 && from.item < items) {
            from.item += blocks;
            begin_segment(from, segment, lane);
        }
    }

    /// Copies a stage of weights, as far as the segment goes.
    __device__ static void copy_weights(const Source& from, char* to, int lane) {
        constexpr int kRound = kWarp * kCopyBytes;
        const int left = from.tiles * static_cast<int>(Tile::kBytes);
        const int bytes = (left < kWeightBytes ? left : kWeightBytes) - lane * kCopyBytes;
#pragma unroll
        for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
            for (int first = 0; first < kWeightBytes; first += kRound) {
                if (first < bytes) {
                    begin_copy<true>(to + i * kWeightBytes + first, from.weights[i] + first);
                }
            }
        }
    }

    /// Copies the activations of a stage, for the rows that exist.
    __device__ void copy_inputs(const Source& from, char* to, int lane) const {
        to += kMTiles * kWeightBytes;
#pragma unroll
        for (int i = 0; i < kNTiles; ++i) {
            const int tiles = row_of(i, lane) < op.rows ? from.tiles : 0;
#pragma unroll
            for (int k = 0; k < kTilesOfStage; ++k) {
                if (k < tiles) {
                    begin_copy<false>(to + i * kInputBytes + k * kInputTileBytes,
                                      from.inputs[i] + k * (kTileInputs * 2));
                }
            }
        }
    }

    template <bool kIsWhole>
    __device__ static void add_stage(const char* stage, int lane, int tiles, Sums& sums) {
#pragma unroll
        for (int k = 0; k < kTilesOfStage; ++k) {
            if (kIsWhole || k < tiles) {
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

    /// Adds up the segments' sums in order.
    __device__ void finish(const Block& block, int item, const Sums& sums) const {
        auto* const shared = reinterpret_cast<float*>(block.shared + kSegments * kRingBytes);
#pragma unroll
        for (int value = 0; value < Sums::kValues; ++value) {
            shared[block.warp() * kOutputs + value * kWarp + block.lane()] = sums.value(value);
        }
        block.synchronize();
#pragma unroll 1
        for (int output = block.thread; output < kWritten; output += kThreads) {
            const OutputPlace place = Sums::place(output / kWarp, output % kWarp);
            const int feature = m_tile_of(item, 0) * kTileFeatures + place.feature;
            if (feature < weight.out_features && place.row < op.rows) {
                write(shared + output, place.row, feature);
            }
        }
        block.synchronize();  // the next item's sums use the same memory
    }

    __device__ void write(const float* sums, int row, int feature) const {
        const float output = finished_output<Tile>(op, weight, feature, total_of(sums));
        if constexpr (kIsGated) {
            const int up_feature = feature + activate.width;
            const float up = finished_output<Tile>(op, weight, up_feature, total_of(sums + kWritten));
            store(activate.out.data, activate.out.format, row * activate.out.stride + feature,
                  gated(activate, output, up));
        } else {
            op.out[row * op.out_stride + feature] = output;
        }
    }

    __device__ float total_of(const float* sums) const {
        const int segments = num_segments(weight);
        float total = sums[0];
        for (int segment = 1; segment < segments; ++segment) {
            total += sums[segment * kOutputs];
        }
        return total;
    }
};

template <typename Tile, SlicedShape kShape>
void launch_sliced(const Stream& stream, const Product& op, const WeightView& weight,
                   const Activate& activate = {}) {
    using Kernel = SlicedProduct<Tile, kShape>;
    const auto items = static_cast<int>((m_tiles_of(weight) + kShape.m_tiles - 1) / kShape.m_tiles);
    const int blocks = std::min(items, stream.multiprocessors() * Kernel::kBlocksPerMultiprocessor);
    for_each_block(stream, blocks, Kernel::kSharedBytes, Kernel{op, weight, items, blocks, activate});
}

/// Whether one block per multiprocessor can compute all outputs, and can have much shared memory.
inline bool is_low(const Stream& stream, const WeightView& weight) {
    return m_tiles_of(weight) <= 2 * stream.multiprocessors() &&
           stream.block_memory() >= size_t{SlicedShape::kWholeKilobytes} << 10;
}

/// Whether a SlicedProduct is faster than a WideProduct.
inline bool is_sliced(const Stream& stream, const Product& op, const WeightView& weight) {
    return op.rows <= kMostSlicedRows || (op.rows <= 2 * kMostSlicedRows && is_low(stream, weight));
}

/// The product with the activation of its gates and ups, which must be whole tiles.
template <typename Tile>
void gated_product(const Stream& stream, const Product& op, const WeightView& weight,
                   const Activate& activate) {
    constexpr int kShared = SlicedShape::kSharedKilobytes;
    op.rows > kNTileRows
        ? launch_sliced<Tile, SlicedShape{2, 2, kShared, true}>(stream, op, weight, activate)
        : launch_sliced<Tile, SlicedShape{2, 1, kShared, true}>(stream, op, weight, activate);
}

/// Chooses a shape by speed alone. Taller items read fewer activations, if there are enough items; one block
/// per multiprocessor keeps as many loads in flight as two, if it has enough memory.
template <typename Tile>
void sliced_product(const Stream& stream, const Product& op, const WeightView& weight) {
    constexpr int kWhole = SlicedShape::kWholeKilobytes;
    const bool is_tall = m_tiles_of(weight) >= 8 * stream.multiprocessors();
    const bool is_whole = is_low(stream, weight);
    if (op.rows > kMostSlicedRows) {
        launch_sliced<Tile, SlicedShape{2, 4, kWhole}>(stream, op, weight);
    } else if (op.rows > kNTileRows) {
        is_whole ? launch_sliced<Tile, SlicedShape{2, 2, kWhole}>(stream, op, weight)
                 : launch_sliced<Tile, SlicedShape{2, 2}>(stream, op, weight);
    } else if (is_whole) {
        launch_sliced<Tile, SlicedShape{2, 1, kWhole}>(stream, op, weight);
    } else if (is_tall || Tile::kHasGroupScales) {
        launch_sliced<Tile, SlicedShape{2, 1}>(stream, op, weight);
    } else {
        launch_sliced<Tile, SlicedShape{1, 1}>(stream, op, weight);
    }
}

}  // namespace outrider::cuda
