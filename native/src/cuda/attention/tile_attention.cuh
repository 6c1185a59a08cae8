// TileAttention: attention on tensor cores. Queries are the rows of an mma_m16n8k16, which do not meet;
// its columns are positions where they meet keys, and dimensions where weights meet values. Scores go through
// the dimensions in order, sums of weighted values through a span's positions in order, whatever the number
// of queries: so every output is the same sequence of operations in a block of any number of tiles.
//
// Keys and values come straight from the cache as the registers that the instruction takes. Each warp scores
// a block of the cache for all queries; weights meet in shared memory, and each warp then has some dimensions
// of all values.
#pragma once

#include "cuda/attention/attend_works.cuh"
#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/tile_attention_scratch.cuh"
#include "cuda/attention/tile_copies.cuh"
#include "cuda/attention/tile_scores.cuh"
#include "cuda/attention/tile_values.cuh"

namespace outrider::cuda {

/// Blocks share the works of a WorkList.
template <KvFormat kFormat, int kTiles, bool kIsCapped>
struct TileAttention {
    using Scratch = TileAttentionScratch<kTiles>;
    using Copies = TileCopies<kFormat>;
    static constexpr int kThreads = Scratch::kThreads;
    static constexpr int kBlocksPerMultiprocessor = 2;
    static constexpr bool kIsReferenced = true;
    using WaitsItself = void;
    static constexpr int kQueries = Scratch::kQueries;

    Attention op;
    Sharing sharing;
    Grouping grouping;
    int stages;  // of copies

    static size_t copy_bytes(int stages) { return Copies::bytes(stages); }

    /// All heads that share keys, if a tile can have them, and as many rows as then fit.
    static Grouping grouping_of(const Attention& op) {
        const int each = op.num_heads / op.cache.num_kv_heads;
        const int groups = (each + kTileQueries - 1) / kTileQueries;
        const int heads = (each + groups - 1) / groups;
        return Grouping::of(op, kQueries / heads, heads);
    }

    __device__ void operator()(const Block& block) const { attend_works(block, *this); }

    __device__ Copies begin_copies(const Block& block, const Group& group, char* memory, int begin,
                                   int end) const {
        return Copies(block, op, group, memory, stages, begin, end);
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
            scratch.softmax[block.thread] = empty_softmax();
            scratch.whole[block.thread] = first_softmax(op, group.head(block.thread));
        }
#pragma unroll 1
        for (int i = 0; i < rounds_of(op.cache.head_dim) * Scratch::kValuesOfRound; ++i) {
            scratch.totals[i * kThreads + block.thread] = 0.0f;
            scratch.whole_totals[i * kThreads + block.thread] = 0.0f;
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

    __device__ void attend(const Block& block, const Group& group, const Scratch& scratch, Copies& copies,
                           int span) const {
        TileScores<kFormat, kTiles, kIsCapped> scores(op, block, group, scratch, copies, span);
        scores.store_maxima();
        block.synchronize();
        scores.store_weights(copies);
        block.synchronize();
        merge_softmax(block, group, scratch);
        synchronize_warp();  // only some lanes have merged
#pragma unroll 1
        for (int round = 0; round < rounds_of(op.cache.head_dim); ++round) {
            const TileValues<kFormat, kTiles> values(op, block, group, scratch, copies, round, span);
            block.synchronize();  // merges are there, and weights have been read
            for_each_value(block, group, round, [&](int index, int query) {
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

    /// Merges what the spans of a stretch have given with the stretches before, and begins anew.
    __device__ void end_stretch(const Block& block, const Group& group, const Scratch& scratch) const {
        block.synchronize();  // the last span's merges have been read
        if (block.thread < group.queries()) {
            const Softmax part = scratch.softmax[block.thread];
            Softmax& before = scratch.whole[block.thread];
            const Merge merge(before, part);
            scratch.merges[block.thread] = {merge, is_empty(part)};
            if (!is_empty(part)) {
                before = {merge.maximum, merge.of(before.sum, part.sum)};
            }
            scratch.softmax[block.thread] = empty_softmax();
        }
        block.synchronize();
        const auto merge_of = [&](int query) { return scratch.merges[query]; };
        for_each_total(block, group, merge_of, [&](const SpanMerge& join, int place, int) {
            if (!join.is_empty) {
                float& total = scratch.whole_totals[place];
                total = join.merge.of(total, scratch.totals[place]);
            }
            scratch.totals[place] = 0.0f;
        });
    }

    __device__ void write_part(const Block& block, const Work& work, const Scratch& scratch) const {
        if (block.thread < work.group.queries()) {
            float* to = partial(op, work, work.part, block.thread);
            to[0] = scratch.softmax[block.thread].maximum;
            to[1] = scratch.softmax[block.thread].sum;
        }
        const auto part_of = [&](int query) { return partial(op, work, work.part, query) + 2; };
        for_each_total(block, work.group, part_of,
                       [&](float* to, int place, int dim) { to[dim] = scratch.totals[place]; });
    }

    __device__ void write(const Block& block, const Group& group, const Scratch& scratch) const {
        struct Output {
            int64_t index;
            float sum;
        };
        const auto output_of = [&](int query) {
            return Output{group.row(query) * op.out.stride + group.head(query) * op.cache.head_dim,
                          scratch.whole[query].sum};
        };
        for_each_total(block, group, output_of, [&](const Output& to, int place, int dim) {
            store(op.out.data, op.out.format, to.index + dim, scratch.whole_totals[place] / to.sum);
        });
    }

    /// Calls `body` for a thread's totals, those that are somebody's, with what `query_body` gives their
    /// query: seldom, and so in a loop, which takes less of the instruction cache.
    template <typename QueryBody, typename Body>
    __device__ void for_each_total(const Block& block, const Group& group, const QueryBody& query_body,
                                   const Body& body) const {
        const int rounds = rounds_of(op.cache.head_dim);
#pragma unroll 1
        for (int half = 0; half < kTiles * 2; ++half) {
            const int query = half * 8 + block.lane() / 4;
            if (query >= group.queries()) {
                return;
            }
            const auto of_query = query_body(query);
#pragma unroll 1
            for (int round = 0; round < rounds; ++round) {
#pragma unroll
                for (int i = 0; i < kNTilesOfWarp * 2; ++i) {
                    const int index = (half / 2 * kNTilesOfWarp + i / 2) * 4 + half % 2 * 2 + i % 2;
                    const int dim = dim_of(block, round, index);
                    if (dim < op.cache.head_dim) {
                        body(of_query, (round * Scratch::kValuesOfRound + index) * kThreads + block.thread,
                             dim);
                    }
                }
            }
        }
    }

    /// Of the value that a thread has in a round at an index.
    __device__ static int query_of(const Block& block, int index) {
        return index / 4 / kNTilesOfWarp * kTileQueries + index % 4 / 2 * 8 + block.lane() / 4;
    }
    __device__ static int dim_of(const Block& block, int round, int index) {
        return first_dim_of(block, round, index / 4 % kNTilesOfWarp) + block.lane() % 4 * 2 + index % 2;
    }

    /// Calls `body` for a thread's values of a round, those that are somebody's.
    template <typename Body>
    __device__ void for_each_value(const Block& block, const Group& group, int round,
                                   const Body& body) const {
#pragma unroll
        for (int index = 0; index < Scratch::kValuesOfRound; ++index) {
            const int query = query_of(block, index);
            const int dim = dim_of(block, round, index);
            if (query < group.queries() && dim < op.cache.head_dim) {
                body(index, query);
            }
        }
    }
};

}  // namespace outrider::cuda
