// TileValues: the sums of a block's weighted values in a unit of dimensions.
#pragma once

#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/kv_block.cuh"
#include "cuda/attention/tile_attention_scratch.cuh"
#include "cuda/attention/tile_scores.cuh"

namespace outrider::cuda {

/// The columns of an mma_m16n8k16 are eight dimensions.
template <KvFormat kFormat>
struct TileValues {
    static constexpr int kNTiles = kUnitDims / 8;

    float sums[kNTiles][4] = {};

    template <typename Copies>
    __device__ TileValues(const Attention& op, const Group& group, const TileWeights& weights,
                          const Copies& copies, int unit, int lane, int chunk) {
        const bool is_whole = group.reads_all(chunk);
#pragma unroll
        for (int n_tile = 0; n_tile < kNTiles; ++n_tile) {
            const Words<4> values = unpack<kFormat>(copies.values(unit, n_tile));
            if (is_whole) {
                multiply(weights, values, sums[n_tile]);
            } else {
                multiply_rows(op, group, weights, values, lane, chunk * kBlockSize, sums[n_tile]);
            }
        }
    }

    /// Stores the sums of existing queries among a warp's sums, from `first_dim` on.
    __device__ void store(const TileAttentionScratch& scratch, const Group& group, int warp, int lane,
                          int first_dim) const {
#pragma unroll
        for (int half = 0; half < TileWeights::kHalves; ++half) {
            const int query = half * 8 + lane / 4;
            if (query < group.queries()) {
                float* const to = scratch.sums_of(warp, query) + first_dim + lane % 4 * 2;
#pragma unroll
                for (int n_tile = 0; n_tile < kNTiles; ++n_tile) {
                    *reinterpret_cast<Words<2>*>(to + n_tile * 8) = {
                        {bit_cast<uint32_t>(sums[n_tile][2 * half]),
                         bit_cast<uint32_t>(sums[n_tile][2 * half + 1])}};
                }
            }
        }
    }

  private:
    /// Multiplies row by row, with zeros for the values that a row does not attend to: a value that only
    /// other rows attend to may be infinite, and one that no row attends to may be anything. The products
    /// with other rows' weights are discarded.
    __device__ static void multiply_rows(const Attention& op, const Group& group, const TileWeights& weights,
                                         const Words<4>& values, int lane, int start, float (&kept)[4]) {
        const int upper = group.row_of(lane / 4);
        const int lower = group.row_of(lane / 4 + 8);
#pragma unroll 1
        for (int row = 0; row < group.rows; ++row) {
            float own[4] = {};
            multiply(weights, masked(values, range_of(op, group.position + row), start, lane), own);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                kept[i] = row == (i < 2 ? upper : lower) ? own[i] : kept[i];
            }
        }
    }

    __device__ static Words<4> masked(const Words<4>& values, const Range& range, int start, int lane) {
        Words<4> to;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            to.words[i] = values.words[i] & range.mask(start + i * 8 + lane % 4 * 2);
        }
        return to;
    }

    __device__ static void multiply(const TileWeights& weights, const Words<4>& values, float (&sums)[4]) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            mma_m16n8k16(sums, weights.steps[step].words,
                         {values.words[2 * step], values.words[2 * step + 1]});
        }
    }
};

}  // namespace outrider::cuda
