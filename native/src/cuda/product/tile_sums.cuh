// TileSums: what a warp's tensor-core instructions have added up.
#pragma once

#include <cstdint>

#include "cuda/primitives/warp.cuh"
#include "cuda/product/segments.cuh"
#include "cuda/weights/weight_tile.cuh"

namespace outrider::cuda {

constexpr int kInputTileBytes = kNTileRows * kTileInputs * 2;  // of an N tile's bf16 activations

/// Right operands of a tile's two steps: lane g, c has inputs 8c ... 8c + 7 of each N tile's row g.
template <int kNTiles>
struct InputTiles {
    Words<4> n_tiles[kNTiles];
};

/// One output of a warp, from the first of its features and rows on.
struct OutputPlace {
    int feature;
    int row;
};

/// Sums of kMTiles by kNTiles tiles of outputs.
template <typename Tile, int kMTiles, int kNTiles>
struct TileSums {
    static constexpr int kValues = kMTiles * kNTiles * 4;  // of a lane

    float values[kMTiles][kNTiles][4];

    __device__ float value(int index) const {
        return values[index / 4 / kNTiles][index / 4 % kNTiles][index % 4];
    }
    __device__ static OutputPlace place(int index, int lane) {
        return {index / 4 / kNTiles * kTileFeatures + lane / 4 + index % 4 / 2 * 8,
                index / 4 % kNTiles * kNTileRows + lane % 4 * 2 + index % 2};
    }

    /// Adds the products of one of the M tiles. Its two steps come in order; where a tile's weights share
    /// scales, those multiply the sum of both.
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
