// TileSums: the sums of a warp's tensor-core instructions.
#pragma once

#include <cstdint>

#include "cuda/primitives/warp.cuh"
#include "cuda/product/segments.cuh"
#include "cuda/weights/weight_tile.cuh"

namespace outrider::cuda {

constexpr int kInputTileBytes = kNTileRows * kTileInputs * 2;  // bytes of an N tile's bf16 activations

/// Right operands of a tile's two steps: lane (g, c) has inputs 8c ... 8c + 7 of row g of each N tile.
template <int kNTiles>
struct InputTiles {
    Words<4> n_tiles[kNTiles];
};

/// The feature and the row of one output of a warp, relative to the warp's first.
struct OutputPlace {
    int feature;
    int row;
};

/// The sums of kMTiles by kNTiles tiles of outputs.
template <typename Tile, int kMTiles, int kNTiles>
struct TileSums {
    static constexpr int kValues = kMTiles * kNTiles * 4;  // per lane

    float values[kMTiles][kNTiles][4];

    __device__ float value(int index) const {
        return values[index / 4 / kNTiles][index / 4 % kNTiles][index % 4];
    }
    __device__ static OutputPlace place(int index, int lane) {
        return {index / 4 / kNTiles * kTileFeatures + lane / 4 + index % 4 / 2 * 8,
                index / 4 % kNTiles * kNTileRows + lane % 4 * 2 + index % 2};
    }

    /// Adds the products of one M tile. Its two steps are added in order; if a tile's weights share scales,
    /// these multiply the sum of both steps.
    __device__ void add(int m_tile, const typename Tile::Words& weights, const InputTiles<kNTiles>& inputs) {
        const LeftOperands left = Tile::unpack(weights);
#pragma unroll
        for (int n_tile = 0; n_tile < kNTiles; ++n_tile) {
            const uint32_t (&words)[4] = inputs.n_tiles[n_tile].words;
            float (&sums)[4] = values[m_tile][n_tile];
            if constexpr (Tile::kHasGroupScales) {
                float group[4] = {};
                add_steps(left, words, group);
                const float upper = Tile::upper_scale(weights);
                const float lower = Tile::lower_scale(weights);
                sums[0] = fmaf(group[0], upper, sums[0]);
                sums[1] = fmaf(group[1], upper, sums[1]);
                sums[2] = fmaf(group[2], lower, sums[2]);
                sums[3] = fmaf(group[3], lower, sums[3]);
            } else {
                add_steps(left, words, sums);
            }
        }
    }

  private:
    __device__ static void add_steps(const LeftOperands& left, const uint32_t (&words)[4], float (&sums)[4]) {
        mma_m16n8k16(sums, left.steps[0], {words[0], words[1]});
        mma_m16n8k16(sums, left.steps[1], {words[2], words[3]});
    }
};

}  // namespace outrider::cuda
