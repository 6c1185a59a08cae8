// TileAttention: attention on tensor cores. Queries are the rows of an mma_m16n8k16, which do not meet;
// its columns are positions where they meet keys, and dimensions where weights meet values. Scores go through
// the dimensions in order, sums of weighted values through a span's positions in order, whatever the number
// of queries: so every output is the same sequence of operations in a block of any number of tiles.
//
// Keys and values come straight from the cache as the registers that the instruction takes. Each warp scores
// a block of the cache for all queries; weights meet in shared memory, and each warp then has some dimensions
// of all values.
#pragma once

#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/tile_attention_scratch.cuh"
#include "cuda/attention/tile_scores.cuh"
#include "cuda/attention/tile_values.cuh"

namespace outrider::cuda {

/// One block attends with the rows of one group that has its first row here, if there is one.
template <KvFormat kFormat, int kTiles, bool kIsCapped>
struct TileAttention {
    using Scratch = TileAttentionScratch<kTiles>;
    static constexpr int kThreads = Scratch::kThreads;
    static constexpr int kBlocksPerMultiprocessor = 2;
    static constexpr int kQueries = Scratch::kQueries;

    Attention op;
    int spans;  // that have blocks of their own; 0: a block takes all
    Grouping grouping;

    /// All heads that share keys, if a tile can have them, and as many rows as then fit.
    TileAttention(const Attention& operation, int spans_of_rows) : op(operation), spans(spans_of_rows) {
        const int each = Grouping::heads_each(op);
        const int groups = (each + kTileQueries - 1) / kTileQueries;
        const int heads = (each + groups - 1) / groups;
        grouping = {kQueries / heads, heads};
    }

    __device__ void operator()(const Block& block) const {
        with_own_group(op, grouping, spans, block.index, [&](const Group& group, int first, int last) {
            const Scratch scratch(block.shared, op.cache.head_dim);
            begin(block, group, scratch);
#pragma unroll 1
            for (int span = first; span <= last; ++span) {
                attend(block, group, scratch, span);
            }
            if (spans > 0) {
                write_partial(block, group, scratch, first);
            } else {
                write(block, group, scratch);
            }
        });
    }

    __device__ void begin(const Block& block, const Group& group, const Scratch& scratch) const {
        const int steps = scratch.units * kSteps;
        for (int i = block.thread; i < kTiles * steps * kWarp; i += kThreads) {
            const int lane = i % kWarp;
            const int step = i / kWarp % steps;
            const int query = i / kWarp / steps * kTileQueries + lane / 4;
            const int dim = step / kSteps * kUnitDims + lane % 4 * kFragmentSize + step % kSteps * 4;
            const Words<2> upper = four_dims(group, query, dim);
            const Words<2> lower = four_dims(group, query + 8, dim);
            scratch.queries[i] = {{upper.words[0], lower.words[0], upper.words[1], lower.words[1]}};
        }
        if (block.thread < kQueries) {
            scratch.softmax[block.thread] = {minus_infinity(), 0.0f};
        }
        for (int i = 0; i < rounds_of(op.cache.head_dim) * Scratch::kValuesOfRound; ++i) {
            scratch.total_of(0, i, block.thread) = 0.0f;
        }
        block.synchronize();
    }

    /// Four dimensions of a query, rounded to bf16; zeros where there is no such query, or dimension.
    __device__ Words<2> four_dims(const Group& group, int query, int dim) const {
        if (query >= group.queries() || dim >= op.cache.head_dim) {
            return {};
        }
        const int64_t heads = op.num_heads + 2 * op.cache.num_kv_heads;
        const int64_t head = group.row(query) * heads + group.head(query);
        const Words<4> from = load_words<4, false>(op.qkv + head * op.cache.head_dim + dim);
        const auto value = [&](int i) { return bit_cast<float>(from.words[i]); };
        return {{bfloat16_pair(value(0), value(1)), bfloat16_pair(value(2), value(3))}};
    }

    __device__ void attend(const Block& block, const Group& group, const Scratch& scratch, int span) const {
        TileScores<kFormat, kTiles, kIsCapped> scores(op, block, group, scratch,
                                                      span * kChunks + block.warp());
        scores.store_maxima();
        block.synchronize();
        scores.store_weights();
        block.synchronize();
        merge_softmax(block, group, scratch);
        synchronize_warp();  // only some lanes have merged
#pragma unroll 1
        for (int round = 0; round < rounds_of(op.cache.head_dim); ++round) {
            const TileValues<kFormat, kTiles> values(op, block, group, scratch, round, span);
            block.synchronize();  // merges are there, and weights have been read
            for_each_value(block, group, round, [&](int index, int query, int) {
                if (const SpanMerge& join = scratch.merges[query]; !join.is_empty) {
                    float& total = scratch.total_of(round, index, block.thread);
                    total = join.merge.of(total, values.of(index));
                }
            });
        }
    }

    __device__ void merge_softmax(const Block& block, const Group& group, const Scratch& scratch) const {
        const int query = block.thread;
        if (query < group.queries()) {
            const Softmax part = scratch.softmax_of_span(query);
            Softmax& before = scratch.softmax[query];
            const Merge merge(before, part);
            scratch.merges[query] = {merge, is_empty(part)};
            if (!is_empty(part)) {
                before = {merge.maximum, merge.of(before.sum, part.sum)};
            }
        }
    }

    __device__ void write_partial(const Block& block, const Group& group, const Scratch& scratch,
                                  int span) const {
        const auto of = [&](int query) {
            return partial(op, spans, group.row(query), group.head(query), span);
        };
        if (block.thread < group.queries()) {
            of(block.thread)[0] = scratch.softmax[block.thread].maximum;
            of(block.thread)[1] = scratch.softmax[block.thread].sum;
        }
#pragma unroll 1
        for (int round = 0; round < rounds_of(op.cache.head_dim); ++round) {
            for_each_value(block, group, round, [&](int index, int query, int dim) {
                of(query)[2 + dim] = scratch.total_of(round, index, block.thread);
            });
        }
    }

    __device__ void write(const Block& block, const Group& group, const Scratch& scratch) const {
        const int64_t head_dim = op.cache.head_dim;
#pragma unroll 1
        for (int round = 0; round < rounds_of(op.cache.head_dim); ++round) {
            for_each_value(block, group, round, [&](int index, int query, int dim) {
                const float total = scratch.total_of(round, index, block.thread);
                store(op.out.data, op.out.format,
                      group.row(query) * op.out.stride + group.head(query) * head_dim + dim,
                      total / scratch.softmax[query].sum);
            });
        }
    }

    /// Calls `body` for a thread's values of a round, those that are somebody's.
    template <typename Body>
    __device__ void for_each_value(const Block& block, const Group& group, int round,
                                   const Body& body) const {
#pragma unroll
        for (int index = 0; index < Scratch::kValuesOfRound; ++index) {
            const int tile = index / 4 / kNTilesOfWarp;
            const int n_tile = index / 4 % kNTilesOfWarp;
            const int query = tile * kTileQueries + index % 4 / 2 * 8 + block.lane() / 4;
            const int dim = first_dim_of(block, round, n_tile) + block.lane() % 4 * 2 + index % 2;
            if (query < group.queries() && dim < op.cache.head_dim) {
                body(index, query, dim);
            }
        }
    }
};

}  // namespace outrider::cuda
