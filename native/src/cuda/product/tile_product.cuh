// The matrix product on tensor cores. Output features are the rows of a multiply_add_tile, activation rows
// its columns, which do not meet. K is cut into kSegments segments whatever the number of rows; a segment's
// sum goes through its tiles in order, each tile's two steps in order, and the segments' sums are added up in
// order. So every output is the same sequence of operations in each of the shapes below, which differ in how
// many outputs a warp holds and in where the segments meet.
//
// No operand passes through shared memory: both come as the registers that the instruction takes, in loads of
// 16 bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/warp.cuh"
#include "cuda/weights/tiles.cuh"
#include "outrider/device/operations.h"

namespace outrider::cuda {

constexpr int kSegments = 8;
constexpr int kRowsInEight = 8;  // the columns of a multiply_add_tile

/// What a warp computes, and a block. A narrow block's warps are the segments of the same outputs; a wide
/// block's warps have outputs of their own and go through all segments. Weights come from far and are asked
/// for long before they are needed: kKilobytesAhead of each strip are on their way. Activations come from
/// near.
template <int kStripsOfWarp, int kEightsOfWarp, int kWarpsAlong, int kWarpsAcross, int kKilobytesAhead,
          int kAtOnce>
struct ProductShape {
    static constexpr bool kIsWide = kWarpsAlong * kWarpsAcross > 1;
    static constexpr int kWarps = kIsWide ? kWarpsAlong * kWarpsAcross : kSegments;
    static constexpr int kStrips = kStripsOfWarp;
    static constexpr int kEights = kEightsOfWarp;
    static constexpr int kColumnsOfWarps = kWarpsAcross;
    static constexpr int kBytesAhead = kKilobytesAhead << 10;
    static constexpr int kInputsAhead = kEights <= 2 ? 2 : 1;  // tiles
    static constexpr int kBlocksAtOnce = kAtOnce;
    static constexpr int kBlockStrips = kStrips * kWarpsAlong;
    static constexpr int kBlockRows = kEights * kRowsInEight * kWarpsAcross;
    static constexpr int kValues = kStrips * kEights * 4;  // outputs of a lane
    static constexpr size_t kSharedBytes = size_t{kValues} * kWarps * kWarp * sizeof(float);
};

template <typename Tile, typename Shape>
struct TileProduct {
    static constexpr int kThreads = Shape::kWarps * kWarp;
    static constexpr int kBlocksAtOnce = Shape::kBlocksAtOnce;
    static constexpr int kInputsAhead = Shape::kInputsAhead;
    static constexpr int kWeightsAhead = Shape::kBytesAhead / (Tile::kBytes > 512 ? Tile::kBytes : 512);
    static_assert(kWeightsAhead % kInputsAhead == 0, "both go around in the same loop");

    Product op;
    WeightView weight;

    /// The outputs of one warp.
    struct Place {
        int64_t first_strip;
        int64_t first_row;
        int lane;
    };
    struct Sums {
        float values[Shape::kStrips][Shape::kEights][4];
    };
    struct Weights {
        typename Tile::Words strips[Shape::kStrips];
    };
    struct Inputs {
        Words<4> eights[Shape::kEights];
    };

    __device__ void operator()(const Block& block) const {
        const int64_t row_blocks = (op.rows + Shape::kBlockRows - 1) / Shape::kBlockRows;
        const int warp = Shape::kIsWide ? block.warp() : 0;
        const Place place{
            block.index / row_blocks * Shape::kBlockStrips + warp / Shape::kColumnsOfWarps * Shape::kStrips,
            block.index % row_blocks * Shape::kBlockRows +
                warp % Shape::kColumnsOfWarps * Shape::kEights * kRowsInEight,
            block.lane()};
        if constexpr (Shape::kIsWide) {
            add_own_segments(block, place);
        } else {
            add_segments_of_warps(block, place);
        }
    }

    __device__ int64_t segment_tiles() const { return (tiles_in_strip(weight) + kSegments - 1) / kSegments; }
    /// Those that are not empty.
    __device__ int num_segments() const {
        return static_cast<int>((tiles_in_strip(weight) + segment_tiles() - 1) / segment_tiles());
    }

    __device__ void add_segments_of_warps(const Block& block, const Place& place) const {
        constexpr int kOutputs = Shape::kValues * kWarp;
        auto* const shared = reinterpret_cast<float*>(block.shared);
        const Sums sums = sum_segment(place, block.warp());
#pragma unroll
        for (int value = 0; value < Shape::kValues; ++value) {
            shared[block.warp() * kOutputs + value * kWarp + place.lane] = of(sums, value);
        }
        block.synchronize();
        const int segments = num_segments();
        for (int output = block.thread; output < kOutputs; output += kThreads) {
            float total = shared[output];
            for (int segment = 1; segment < segments; ++segment) {
                total += shared[segment * kOutputs + output];
            }
            write({place.first_strip, place.first_row, output % kWarp}, output / kWarp, total);
        }
    }

    /// The totals wait in shared memory for the next segment's sums: each thread reads its own.
    __device__ void add_own_segments(const Block& block, const Place& place) const {
        auto* const totals = reinterpret_cast<float*>(block.shared) + block.thread;
        const int segments = num_segments();
        for (int segment = 0; segment < segments; ++segment) {
            const Sums sums = sum_segment(place, segment);
#pragma unroll
            for (int value = 0; value < Shape::kValues; ++value) {
                float& total = totals[value * kThreads];
                total = segment == 0 ? of(sums, value) : total + of(sums, value);
            }
        }
#pragma unroll 4
        for (int value = 0; value < Shape::kValues; ++value) {
            write(place, value, totals[value * kThreads]);
        }
    }

    __device__ static float of(const Sums& sums, int value) {
        return sums.values[value / 4 / Shape::kEights][value / 4 % Shape::kEights][value % 4];
    }

    __device__ void write(const Place& place, int value, float total) const {
        const int64_t feature = (place.first_strip + value / 4 / Shape::kEights) * kTileFeatures +
                                place.lane / 4 + value % 4 / 2 * 8;
        const int64_t row =
            place.first_row + value / 4 % Shape::kEights * kRowsInEight + place.lane % 4 * 2 + value % 2;
        if (feature < weight.out_features && row < op.rows) {
            if constexpr (Tile::kLargest > 0.0f) {
                total *= weight.scales[feature];
            }
            op.out[row * weight.out_features + feature] = op.bias ? total + op.bias[feature] : total;
        }
    }

    __device__ Sums sum_segment(const Place& place, int segment) const {
        const int64_t first = segment * segment_tiles();
        const int64_t all = tiles_in_strip(weight);
        const int64_t end = first + segment_tiles() < all ? first + segment_tiles() : all;
        Sums sums = {};
        Weights weights[kWeightsAhead];
        Inputs inputs[kInputsAhead];
#pragma unroll
        for (int ahead = 0; ahead < kWeightsAhead; ++ahead) {
            load_before(end, place, first + ahead, weights[ahead]);
        }
#pragma unroll
        for (int ahead = 0; ahead < kInputsAhead; ++ahead) {
            load_before(end, place, first + ahead, inputs[ahead]);
        }
#pragma unroll 1
        for (int64_t tile = first; tile < end; tile += kWeightsAhead) {
#pragma unroll
            for (int ahead = 0; ahead < kWeightsAhead; ++ahead) {
                if (tile + ahead < end) {
                    multiply(weights[ahead], inputs[ahead % kInputsAhead], sums);
                }
                load_before(end, place, tile + ahead + kWeightsAhead, weights[ahead]);
                load_before(end, place, tile + ahead + kInputsAhead, inputs[ahead % kInputsAhead]);
            }
        }
        return sums;
    }

    /// Strips that are not there are zeros.
    __device__ void load_before(int64_t end, const Place& place, int64_t tile, Weights& weights) const {
        if (tile >= end) {
            return;
        }
#pragma unroll
        for (int strip = 0; strip < Shape::kStrips; ++strip) {
            weights.strips[strip] = {};
            if (place.first_strip + strip < strips_of(weight)) {
                const int64_t index = (place.first_strip + strip) * tiles_in_strip(weight) + tile;
                weights.strips[strip] =
                    Tile::template load<!Shape::kIsWide>(weight.data + index * Tile::kBytes, place.lane);
            }
        }
    }

    /// Rows that are not there are zeros.
    __device__ void load_before(int64_t end, const Place& place, int64_t tile, Inputs& inputs) const {
        if (tile >= end) {
            return;
        }
        const auto* input =
            static_cast<const uint16_t*>(op.input.data) + tile * kTileInputs + place.lane % 4 * 8;
#pragma unroll
        for (int eight = 0; eight < Shape::kEights; ++eight) {
            const int64_t row = place.first_row + eight * kRowsInEight + place.lane / 4;
            inputs.eights[eight] = {};
            if (row < op.rows) {
                inputs.eights[eight] = load_words<4, false>(input + row * op.input.stride);
            }
        }
    }

    __device__ static void multiply(const Weights& weights, const Inputs& inputs, Sums& sums) {
#pragma unroll
        for (int strip = 0; strip < Shape::kStrips; ++strip) {
            const LeftOperands left = Tile::unpack(weights.strips[strip]);
#pragma unroll
            for (int eight = 0; eight < Shape::kEights; ++eight) {
                const uint32_t (&words)[4] = inputs.eights[eight].words;
                float (&of_tile)[4] = sums.values[strip][eight];
                if constexpr (Tile::kHasGroupScales) {
                    float group[4] = {};
                    multiply_tile(left, words, group);
                    const float upper = Tile::upper_scale(weights.strips[strip]);
                    const float lower = Tile::lower_scale(weights.strips[strip]);
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
        multiply_add_tile(sums, left.steps[0], {words[0], words[1]});
        multiply_add_tile(sums, left.steps[1], {words[2], words[3]});
    }
};

/// Launches one shape.
template <typename Tile, typename Shape>
bool multiply_in(const Stream& stream, const Product& op, const WeightView& weight, int64_t least_blocks) {
    const int64_t blocks = (strips_of(weight) + Shape::kBlockStrips - 1) / Shape::kBlockStrips *
                           ((op.rows + Shape::kBlockRows - 1) / Shape::kBlockRows);
    if (blocks < least_blocks) {
        return false;
    }
    for_each_block(stream, blocks, Shape::kSharedBytes, TileProduct<Tile, Shape>{op, weight});
    return true;
}

/// Chooses by speed only: all shapes give the same bits. Wide ones read fewer activations and weights in all,
/// where they are enough to occupy half of the multiprocessors.
template <typename Tile>
void tile_product(const Stream& stream, const Product& op, const WeightView& weight) {
    // A group's sums need registers, too: twice the warps share the outputs of the widest, and others look
    // less far ahead.
    constexpr bool kGrouped = Tile::kHasGroupScales;
    constexpr int kFar = kGrouped ? 2 : 4;
    using Widest =
        std::conditional_t<kGrouped, ProductShape<4, 4, 2, 4, 1, 1>, ProductShape<4, 8, 2, 2, 1, 2>>;
    const int64_t some = (stream.multiprocessors() + 1) / 2;
    const bool is_tall = strips_of(weight) >= 2 * stream.multiprocessors();
    if ((op.rows > 64 && multiply_in<Tile, Widest>(stream, op, weight, some)) ||
        (op.rows > 32 &&
         multiply_in<Tile, ProductShape<kGrouped ? 1 : 2, 8, 4, 1, 4, 2>>(stream, op, weight, some)) ||
        (op.rows > 16 &&
         multiply_in<Tile, ProductShape<2, 4, 4, 1, 2, kGrouped ? 2 : 3>>(stream, op, weight, some))) {
        return;
    }
    if (op.rows > 32) {
        multiply_in<Tile, ProductShape<2, 8, 1, 1, kFar, 1>>(stream, op, weight, 0);
    } else if (op.rows > 16) {
        multiply_in<Tile, ProductShape<2, 4, 1, 1, 2, kGrouped ? 1 : 2>>(stream, op, weight, 0);
    } else if (op.rows > 8) {
        is_tall ? multiply_in<Tile, ProductShape<2, 2, 1, 1, 2, 2>>(stream, op, weight, 0)
                : multiply_in<Tile, ProductShape<1, 2, 1, 1, 4, 2>>(stream, op, weight, 0);
    } else {
        is_tall ? multiply_in<Tile, ProductShape<2, 1, 1, 1, 4, 2>>(stream, op, weight, 0)
                : multiply_in<Tile, ProductShape<1, 1, 1, 1, kFar + 2, 2>>(stream, op, weight, 0);
    }
}

}  // namespace outrider::cuda
