// Latent vectors (arXiv 2405.04434, section 2.1): their norm, the rotation of what turns, and the write into the cache.
#include "cuda/attention/attention.h"
#include "cuda/attention/kv_block.cuh"
#include "cuda/elementwise/normalise.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/rotary/quantise.cuh"
#include "cuda/rotary/rotary.h"
#include "outrider/decoder/limits.h"

namespace outrider::cuda {
namespace {

/// The two numbers of a pair, turned.
struct Turned {
    float low;
    float high;

    /// # values: [2 * half_dim], angles: [2, half_dim]
    __device__ Turned(const float* values, const float* angles, int half_dim, int pair) {
        const float cosine = angles[pair];
        const float sine = angles[half_dim + pair];
        const float first = values[pair];
        const float second = values[half_dim + pair];
        low = fmaf(first, cosine, -(second * sine));
        high = fmaf(second, cosine, first * sine);
    }
};

/// Stores one row's latent vector and the part of its key that turns, by a warp.
struct StoreLatent {
    static constexpr int kThreads = 128;
    static constexpr int kBlocksPerMultiprocessor = 4;
    static constexpr int kWarps = kThreads / kWarp;
    static constexpr int kColumns = kMaxHeadDim / kWarp;
    static constexpr int kTurning = kMostTurning / kWarp;

    StoreLatents op;

    __device__ void operator()(const Block& block) const {
        const int64_t row = block.index * kWarps + block.warp();
        if (row >= op.places.rows || op.places.positions[row] == kInactive) {
            return;
        }
        const int position = op.places.positions[row];
        const KvBlock kv = find_block(op.cache, table_of(op.places, row)[position / kBlockSize], 0);
        const float* values = op.compressed + row * op.cache.head_dim;
        float latent[kColumns];
        float turning[kTurning];
        normalise(block, values, latent);
        turn(block, values + op.cache.latent_rank, op.angles + row * 2 * op.half_dim, turning);
        store(block, kv, position % kBlockSize, latent, turning);
    }

    __device__ void normalise(const Block& block, const float* values, float (&to)[kColumns]) const {
        const int rank = op.cache.latent_rank;
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            const int column = i * kWarp + block.lane();
            to[i] = column < rank ? values[column] : 0.0f;
            sum = fmaf(to[i], to[i], sum);
        }
        const float factor = inverse_rms(reduce_warp(sum, Sum()), rank, op.eps);
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            const int column = i * kWarp + block.lane();
            to[i] = column < rank ? to[i] * factor * op.norm[column] : 0.0f;
        }
    }

    __device__ void turn(const Block& block, const float* values, const float* angles,
                         float (&to)[kTurning]) const {
#pragma unroll
        for (int i = 0; i < kTurning; ++i) {
            const int dim = i * kWarp + block.lane();
            const bool is_low = dim < op.half_dim;
            to[i] = 0.0f;
            if (dim < 2 * op.half_dim) {
                const Turned both(values, angles, op.half_dim, is_low ? dim : dim - op.half_dim);
                to[i] = is_low ? both.low : both.high;
            }
        }
    }

    __device__ void store(const Block& block, const KvBlock& kv, int slot, const float (&latent)[kColumns],
                          const float (&turning)[kTurning]) const {
        const int rank = op.cache.latent_rank;
        if (has_scales(op.cache.format)) {
            store_quantised(block, kv, true, false, slot, 0, rank, latent);
            store_quantised(block, kv, true, true, slot, rank, 2 * op.half_dim, turning);
            return;
        }
        store_plain(block, kv, slot, 0, rank, latent);
        store_plain(block, kv, slot, rank, 2 * op.half_dim, turning);
    }

    template <int kCount>
    __device__ static void store_plain(const Block& block, const KvBlock& kv, int slot, int first, int width,
                                       const float (&own)[kCount]) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const int column = i * kWarp + block.lane();
            if (column < width) {
                kv.set(true, slot, first + column, own[i]);
            }
        }
    }
};

/// Completes one number of a latent query, or the two of a pair that turns.
struct CompleteQuery {
    StoreLatents op;

    __device__ void operator()(int64_t index) const {
        const int rank = op.cache.latent_rank;
        const int64_t query = index / (rank + op.half_dim);
        const auto place = static_cast<int>(index % (rank + op.half_dim));
        float* to = op.latent_queries + query * op.cache.head_dim;
        if (place < rank) {
            to[place] *= op.query_scale;
            return;
        }
        const int pair = place - rank;
        const float* values = op.queries + (query + 1) * op.query_dim - 2 * op.half_dim;
        const Turned both(values, op.angles + query / op.num_heads * 2 * op.half_dim, op.half_dim, pair);
        to[rank + pair] = both.low * op.query_scale;
        to[rank + op.half_dim + pair] = both.high * op.query_scale;
    }
};

}  // namespace

void store_latents(const Stream& stream, const StoreLatents& op) {
    const int64_t rows = op.places.rows;
    for_each_block(stream, (rows + StoreLatent::kWarps - 1) / StoreLatent::kWarps, 0, StoreLatent{op});
    for_each(stream, rows * op.num_heads * (op.cache.latent_rank + op.half_dim), CompleteQuery{op});
}

}  // namespace outrider::cuda
