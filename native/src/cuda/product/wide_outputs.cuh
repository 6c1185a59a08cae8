// WideOutputs: writes the outputs of a WideProduct's block.
#pragma once

#include <cstdint>

#include "cuda/primitives/launch.cuh"
#include "cuda/product/wide_shape.h"
#include "cuda/weights/tiles.cuh"
#include "outrider/device/operations.h"

namespace outrider::cuda {

/// A lane's four outputs of an M tile and an N tile, in the instruction's order.
struct alignas(16) Quad {
    float values[4];

    __device__ Quad operator+(const Quad& other) const {
        return {{values[0] + other.values[0], values[1] + other.values[1], values[2] + other.values[2],
                 values[3] + other.values[3]}};
    }
};

/// The place of a block's outputs.
struct WidePlace {
    int m_block;
    int n_block;
    int segment;  // if K is cut
};

template <typename Tile, WideShape kShape>
struct WideOutputs {
    static constexpr int kMTiles = kShape.m_tiles;
    static constexpr int kNTiles = kShape.n_tiles;

    Product op;
    WeightView weight;

    /// The scale and the bias of a feature.
    struct Ending {
        bool is_there = false;
        float scale = 1.0f;
        float bias = 0.0f;
    };

    __device__ Ending ending_of(int64_t feature) const {
        Ending ending{feature < weight.out_features};
        if (ending.is_there && Tile::kLargest > 0.0f) {
            ending.scale = weight.scales[feature];
        }
        if (ending.is_there && op.bias) {
            ending.bias = op.bias[feature];
        }
        return ending;
    }

    __device__ void write(float* to, float total, const Ending& ending) const {
        if constexpr (Tile::kLargest > 0.0f) {
            total *= ending.scale;
        }
        *to = op.bias ? total + ending.bias : total;
    }

    /// Writes all outputs of a lane; `total_of` returns those of one M tile and one N tile.
    template <typename TotalOf>
    __device__ void write(const Block& block, const WidePlace& place, const TotalOf& total_of) const {
        const int64_t m_tile =
            int64_t{place.m_block} * kShape.block_m_tiles() + block.warp() / kShape.warps_n * kMTiles;
        const int n_tile = block.warp() % kShape.warps_n * kNTiles;
        const int64_t first_feature = m_tile * kTileFeatures + block.lane() / 4;
        const int64_t first_row =
            int64_t{place.n_block} * kShape.block_rows() + n_tile * kNTileRows + block.lane() % 4 * 2;
        const int rows = static_cast<int>(op.rows - first_row);
        float* const first = op.out + first_row * op.out_stride + first_feature;
#pragma unroll
        for (int m = 0; m < kMTiles; ++m) {
            const Ending endings[2] = {ending_of(first_feature + m * kTileFeatures),
                                       ending_of(first_feature + m * kTileFeatures + 8)};
            float* to = first + m * kTileFeatures;
#pragma unroll
            for (int n = 0; n < kNTiles; ++n, to += kNTileRows * op.out_stride) {
                const Quad totals = total_of(n * kMTiles + m);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if (endings[i / 2].is_there && n * kNTileRows + i % 2 < rows) {
                        write(to + i % 2 * op.out_stride + i / 2 * 8, totals.values[i], endings[i / 2]);
                    }
                }
            }
        }
    }
};

}  // namespace outrider::cuda
