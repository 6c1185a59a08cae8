// TileScores: computes a warp's weights for one block of keys, relative to the maximum of that block.
#pragma once

#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/kv_block.cuh"
#include "cuda/attention/tile_attention_scratch.cuh"
#include "cuda/primitives/reduce.cuh"

namespace outrider::cuda {

/// A lane's weights as left operands, and the softmax of the two queries that the lane has values of: g and g
/// + 8.
struct TileWeights {
    static constexpr int kHalves = 2;

    Words<4> steps[kSteps];
    Softmax softmax[kHalves];
};

/// The columns of an mma_m16n8k16 are eight positions. Whether scores are capped is a template parameter: the
/// code of the cap, repeated for each score of a lane, would not fit into the instruction cache beside the
/// rest.
template <KvFormat kFormat, typename Copies, bool kIsCapped, bool kIsLatent = false>
struct TileScores {
    static constexpr int kNTiles = kBlockSize / kFragmentSize;
    static constexpr int kHalves = TileWeights::kHalves;
    /// The parts of a key have scales of their own.
    static constexpr bool kHasParts = kIsLatent && has_scales(kFormat);

    const Attention& op;
    const Group& group;
    int lane;
    int chunk;
    float scores[kNTiles][4] = {};
    float latents[kHasParts ? kNTiles : 1][4];  // scores of the latent parts

    __device__ TileScores(const Attention& operation, const Group& queries, int own_lane, int own_chunk)
        : op(operation), group(queries), lane(own_lane), chunk(own_chunk) {}

    /// Adds the products of one unit of dimensions.  # queries: [units, kSteps, kWarp]
    __device__ void multiply(const Words<4>* queries, const Copies& copies, int unit) {
        const Words<4> steps[kSteps] = {queries[unit * kSteps * kWarp + lane],
                                        queries[(unit * kSteps + 1) * kWarp + lane]};
#pragma unroll
        for (int n_tile = 0; n_tile < kNTiles; ++n_tile) {
            const Words<4> keys = unpack<kFormat>(copies.keys(unit, n_tile));
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                mma_m16n8k16(scores[n_tile], steps[step].words,
                             {keys.words[2 * step], keys.words[2 * step + 1]});
            }
        }
    }

    /// Begins with the part of the keys that turns, after the latent vectors.
    __device__ void end_latents(const Copies& copies, int span) {
        if constexpr (kHasParts) {
            float scales[kNTiles][2];
            load_scales(copies, span, false, scales);
#pragma unroll
            for (int i = 0; i < kNTiles * 4; ++i) {
                latents[i / 4][i % 4] = scores[i / 4][i % 4] * scales[i / 4][i % 2];
                scores[i / 4][i % 4] = 0.0f;
            }
        }
    }

    /// The weights of a block that no query attends to.
    __device__ static TileWeights no_weights() { return {{}, {empty_softmax(), empty_softmax()}}; }

    __device__ TileWeights weights(const Copies& copies, int span) {
        TileWeights to = no_weights();
        float scales[kNTiles][2];
        load_scales(copies, span, true, scales);
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            if (half * 8 < group.queries()) {
                mask(half, scales);
                to.softmax[half] = weigh(half);
            }
        }
        load_scales(copies, span, false, scales);
#pragma unroll
        for (int i = 0; i < kSteps * 4; ++i) {
            const int n_tile = i / 2;
            const int half = i % 2;
            to.steps[i / 4].words[i % 4] = half * 8 < group.queries() ? operand(n_tile, half, scales) : 0;
        }
        return to;
    }

  private:
    __device__ int slot_of(int n_tile, int which) const { return n_tile * 8 + lane % 4 * 2 + which; }

    /// Scales and caps the scores; those of positions that are not attended to become minus infinity.
    __device__ void mask(int half, const float (&scales)[kNTiles][2]) {
        const int start = chunk * kBlockSize;
        const Range range =
            group.reads_all(chunk) ? Range{start, start + kBlockSize - 1} : range_of_query(half);
#pragma unroll
        for (int k = 0; k < kNTiles * 2; ++k) {
            float& score = scores[k / 2][half * 2 + k % 2];
            float scaled = score * scales[k / 2][k % 2];
            if constexpr (kHasParts) {
                scaled += latents[k / 2][half * 2 + k % 2];
            }
            const float capped = kIsCapped ? soft_capped(scaled, op.softcap) : scaled;
            score = range.has(start + slot_of(k / 2, k % 2)) ? capped : minus_infinity();
        }
    }

    /// The positions that a query attends to; for a query that does not exist, those of the last one.
    __device__ Range range_of_query(int half) const {
        const int position = group.position_of(half * 8 + lane / 4);
        return range_of(op, position < group.last() ? position : group.last());
    }

    /// Turns scores into weights.
    __device__ Softmax weigh(int half) {
        float maximum = minus_infinity();
#pragma unroll
        for (int k = 0; k < kNTiles * 2; ++k) {
            maximum = Greater()(maximum, scores[k / 2][half * 2 + k % 2]);
        }
        maximum = reduce_warp<4>(maximum, Greater());
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < kNTiles * 2; ++k) {
            float& score = scores[k / 2][half * 2 + k % 2];
            score = score != minus_infinity() ? exponential_below_one(score - maximum) : 0.0f;
            sum += score;
        }
        return {maximum, reduce_warp<4>(sum, Sum())};
    }

    /// Two weights times their values' scales, which may be NaN where the weight is zero.
    __device__ uint32_t operand(int n_tile, int half, const float (&scales)[kNTiles][2]) const {
        const float low = scores[n_tile][half * 2];
        const float high = scores[n_tile][half * 2 + 1];
        return bfloat16_pair(low != 0.0f ? low * scales[n_tile][0] : 0.0f,
                             high != 0.0f ? high * scales[n_tile][1] : 0.0f);
    }

    __device__ void load_scales(const Copies& copies, int span, bool of_keys,
                                float (&scales)[kNTiles][2]) const {
#pragma unroll
        for (int k = 0; k < kNTiles * 2; ++k) {
            scales[k / 2][k % 2] = copies.scale(span, of_keys, slot_of(k / 2, k % 2));
        }
    }
};

}  // namespace outrider::cuda
