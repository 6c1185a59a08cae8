// TileScores: what a warp makes of one block of keys.
#pragma once

#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/kv_block.cuh"
#include "cuda/attention/tile_attention_scratch.cuh"
#include "cuda/attention/tile_copies.cuh"
#include "cuda/primitives/reduce.cuh"

namespace outrider::cuda {

/// Scores of all of a group's queries: the columns of an mma_m16n8k16 are eight positions. Nothing is
/// computed for tiles without queries. Whether scores are capped is known when it is compiled: the code of
/// the cap, once for each score of a lane, would not fit into the instruction cache beside the rest.
template <KvFormat kFormat, int kTiles, bool kIsCapped>
struct TileScores {
    using Scratch = TileAttentionScratch<kTiles>;
    static constexpr int kQueries = Scratch::kQueries;
    static constexpr int kNTiles = kBlockSize / kFragmentSize;
    using Copies = TileCopies<kFormat>;

    const Attention& op;
    const Block& block;
    const Group& group;
    const Scratch& scratch;
    int span;
    int chunk;
    float scores[kTiles][kNTiles][4];

    __device__ TileScores(const Attention& operation, const Block& place, const Group& queries,
                          const Scratch& shared, Copies& copies, int own_span)
        : op(operation),
          block(place),
          group(queries),
          scratch(shared),
          span(own_span),
          chunk(own_span * kChunks + place.warp()),
          scores{} {
        const bool is_read = group.reads(chunk);
#pragma unroll 1
        for (int unit = 0; unit < scratch.units; ++unit) {
            if (is_read) {
                copies.wait();
                multiply(copies, unit);
            }
            copies.advance();
        }
        if (is_read) {
            finish(copies);
        } else {
            forget();
        }
    }

    __device__ int query_of(int tile, int half) const {
        return tile * kTileQueries + half * 8 + block.lane() / 4;
    }
    __device__ int slot_of(int n_tile, int which) const { return n_tile * 8 + block.lane() % 4 * 2 + which; }

    __device__ void multiply(const Copies& copies, int unit) {
        Words<4> fragments[kNTiles];
#pragma unroll
        for (int n_tile = 0; n_tile < kNTiles; ++n_tile) {
            fragments[n_tile] = unpack<kFormat>(copies.keys(n_tile));
        }
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
            if (has_queries(group, tile)) {
#pragma unroll
                for (int step = 0; step < kSteps; ++step) {
                    const Words<4> queries = scratch.queries_of(tile, unit, step, block.lane());
#pragma unroll
                    for (int n_tile = 0; n_tile < kNTiles; ++n_tile) {
                        const uint32_t (&words)[4] = fragments[n_tile].words;
                        mma_m16n8k16(scores[tile][n_tile], queries.words,
                                     {words[2 * step], words[2 * step + 1]});
                    }
                }
            }
        }
    }

    __device__ void forget() {
#pragma unroll
        for (int i = 0; i < kTiles * kNTiles * 4; ++i) {
            scores[i / 4 / kNTiles][i / 4 % kNTiles][i % 4] = minus_infinity();
        }
    }

    /// Scales and caps the scores, which become minus infinity where a position is not attended to.
    __device__ void finish(const Copies& copies) {
        float scales[kNTiles][2];
        load_scales(copies, true, scales);
        const bool is_whole = group.reads_all(chunk);
        const int start = chunk * kBlockSize;
#pragma unroll
        for (int i = 0; i < kTiles * 2; ++i) {
            const int tile = i / 2;
            const int half = i % 2;
            if (has_queries(group, tile)) {
                const Range range =
                    is_whole ? Range{start, start + kBlockSize - 1} : range_of_query(tile, half);
#pragma unroll
                for (int k = 0; k < kNTiles * 2; ++k) {
                    float& score = scores[tile][k / 2][half * 2 + k % 2];
                    const float scaled = score * scales[k / 2][k % 2];
                    const float capped = kIsCapped ? soft_capped(scaled, op.softcap) : scaled;
                    score = range.has(start + slot_of(k / 2, k % 2)) ? capped : minus_infinity();
                }
            }
        }
    }

    /// What a query attends to; of a query that is not there, what the last one does.
    __device__ Range range_of_query(int tile, int half) const {
        const int position = group.position_of(query_of(tile, half));
        return range_of(op, position < group.last() ? position : group.last());
    }

    __device__ void store_maxima() const {
#pragma unroll
        for (int i = 0; i < kTiles * 2; ++i) {
            if (has_queries(group, i / 2)) {
                float maximum = minus_infinity();
#pragma unroll
                for (int k = 0; k < kNTiles * 2; ++k) {
                    maximum = Greater()(maximum, scores[i / 2][k / 2][i % 2 * 2 + k % 2]);
                }
                maximum = reduce_warp<4>(maximum, Greater());
                if (block.lane() % 4 == 0) {
                    scratch.maxima[block.warp() * kQueries + query_of(i / 2, i % 2)] = maximum;
                }
            }
        }
    }

    /// Makes weights of scores, and stores them as left operands, and their sums.
    __device__ void store_weights(const Copies& copies) {
#pragma unroll
        for (int i = 0; i < kTiles * 2; ++i) {
            if (has_queries(group, i / 2)) {
                weigh(i / 2, i % 2);
            }
        }
        float scales[kNTiles][2];
        load_scales(copies, false, scales);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
            if (has_queries(group, tile)) {
#pragma unroll
                for (int step = 0; step < kSteps; ++step) {
                    scratch.weights_of(tile, block.warp(), step, block.lane()) = {
                        {operand(tile, 2 * step, 0, scales), operand(tile, 2 * step, 1, scales),
                         operand(tile, 2 * step + 1, 0, scales), operand(tile, 2 * step + 1, 1, scales)}};
                }
            }
        }
    }

    __device__ void weigh(int tile, int half) {
        const int query = query_of(tile, half);
        const float maximum = scratch.maximum_of(query);
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < kNTiles * 2; ++k) {
            float& score = scores[tile][k / 2][half * 2 + k % 2];
            score = score != minus_infinity() ? exponential_below_one(score - maximum) : 0.0f;
            sum += score;
        }
        sum = reduce_warp<4>(sum, Sum());
        if (block.lane() % 4 == 0) {
            scratch.sums[block.warp() * kQueries + query] = sum;
        }
    }

    /// Two weights times their values' scales, which may be NaN where nothing is attended to.
    __device__ uint32_t operand(int tile, int n_tile, int half, const float (&scales)[kNTiles][2]) const {
        const float low = scores[tile][n_tile][half * 2];
        const float high = scores[tile][n_tile][half * 2 + 1];
        return bfloat16_pair(low != 0.0f ? low * scales[n_tile][0] : 0.0f,
                             high != 0.0f ? high * scales[n_tile][1] : 0.0f);
    }

    /// Anything where the block is not read.
    __device__ void load_scales(const Copies& copies, bool of_keys, float (&scales)[kNTiles][2]) const {
#pragma unroll
        for (int k = 0; k < kNTiles * 2; ++k) {
            scales[k / 2][k % 2] = copies.scale(span, of_keys, slot_of(k / 2, k % 2));
        }
    }
};

}  // namespace outrider::cuda
