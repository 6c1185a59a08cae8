// PromptAttention: attention of many rows of a sequence on tensor cores, with the same bits as TileAttention.
// Each warp has its own tile of queries, and goes through the cache blocks that all warps have copied.
#pragma once

#include <cstddef>

#include "cuda/attention/attend_works.cuh"
#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/prompt_copies.cuh"
#include "cuda/attention/tile_queries.cuh"
#include "cuda/attention/tile_scores.cuh"
#include "cuda/attention/tile_values.cuh"

namespace outrider::cuda {

constexpr int kPromptTiles = 8;       // per block: one for each warp
constexpr int kMostPromptDims = 128;  // per head: registers have room for as many sums

/// The shared memory of a block.
struct PromptScratch {
    static constexpr int kThreads = kPromptTiles * kWarp;

    Words<4>* queries;    // [kPromptTiles, units, kSteps, kWarp]
    Softmax* softmax;     // [kPromptTiles, kTileQueries], of the stretch's spans so far
    Softmax* whole;       // [kPromptTiles, kTileQueries], of the stretches so far
    float* totals;        // [values, kThreads], of the stretch's spans so far
    float* whole_totals;  // the same, of the stretches so far

    __device__ PromptScratch(char* shared, int head_dim, const Depth&)
        : queries(reinterpret_cast<Words<4>*>(shared)),
          softmax(reinterpret_cast<Softmax*>(queries + kPromptTiles * units_of(head_dim) * kSteps * kWarp)),
          whole(softmax + kPromptTiles * kTileQueries),
          totals(reinterpret_cast<float*>(whole + kPromptTiles * kTileQueries)),
          whole_totals(totals + values_of(head_dim) * kThreads) {}

    /// The number of sums of a thread.
    OUTRIDER_HOST_DEVICE static int values_of(int head_dim) {
        return units_of(head_dim) * kUnitDims * kTileQueries / kWarp;
    }

    OUTRIDER_HOST_DEVICE static size_t bytes(int head_dim, const Depth&) {
        return kPromptTiles * units_of(head_dim) * kSteps * kWarp * sizeof(Words<4>) +
               2 * kPromptTiles * kTileQueries * sizeof(Softmax) +
               size_t{2} * values_of(head_dim) * kThreads * sizeof(float);
    }
};

template <KvFormat kFormat>
struct PromptAttention {
    using Scratch = PromptScratch;
    using Copies = PromptCopies<kFormat>;
    static constexpr int kThreads = Scratch::kThreads;
    static constexpr int kHalves = TileWeights::kHalves;
    static constexpr int kMostUnits = kMostPromptDims / kUnitDims;
    static constexpr int kNTiles = TileValues<kFormat>::kNTiles;

    Attention op;
    Depth depth;

    static size_t bytes(const Attention& op) {
        return Scratch::bytes(op.cache.head_dim, {}) + Copies::bytes(op.cache.head_dim);
    }

    __device__ Copies begin_copies(const Block& block, const Group& group, char* memory, int begin,
                                   int end) const {
        return Copies(block, op, group, memory, begin, end);
    }

    /// A warp's rows of a group; there may be none.
    __device__ Group tile_of(const Group& group, int warp) const {
        const int rows = kTileQueries / group.heads;
        Group own = group;
        own.first_row += warp * rows;
        own.position += warp * rows;
        own.rows = smaller_of(larger_of(group.rows - warp * rows, 0), rows);
        own.some = {first_position(op, own.position), own.last()};
        own.common = {first_position(op, own.last()), own.position};
        return own;
    }

    __device__ void begin(const Block& block, const Group& group, const Scratch& scratch) const {
        const Group own = tile_of(group, block.warp());
        const int steps = units_of(op.cache.head_dim) * kSteps;
        for (int step = 0; step < steps; ++step) {
            const int index = step * kWarp + block.lane();
            queries_of(block, scratch)[index] = query_operand(op, own, index);
        }
        if (block.lane() < kTileQueries) {
            const int place = block.warp() * kTileQueries + block.lane();
            scratch.softmax[place] = empty_softmax();
            scratch.whole[place] = first_softmax(op, own.head(block.lane()));
        }
        for (int i = 0; i < Scratch::values_of(op.cache.head_dim); ++i) {
            scratch.totals[i * kThreads + block.thread] = 0.0f;
            scratch.whole_totals[i * kThreads + block.thread] = 0.0f;
        }
        synchronize_warp();
    }

    __device__ void attend(const Block& block, const Group& group, const Scratch& scratch, Copies& copies,
                           int span) const {
        const Group own = tile_of(group, block.warp());
        Sums sums = {};
        Softmax softmax[kHalves] = {empty_softmax(), empty_softmax()};
#pragma unroll 1
        for (int chunk = span * kChunks; chunk < (span + 1) * kChunks; ++chunk) {
            if (group.reads(chunk)) {
                copies.wait();
                if (own.rows > 0 && own.reads(chunk)) {
                    add_chunk(block, own, scratch, copies, chunk, softmax, sums);
                }
            }
        }
        join_span(block, scratch, softmax, sums);
    }

    /// Merges the result of a stretch with the stretches before it, and resets it.
    __device__ void end_stretch(const Block& block, const Group&, const Scratch& scratch) const {
#pragma unroll 1
        for (int half = 0; half < kHalves; ++half) {
            const int place = block.warp() * kTileQueries + half * 8 + block.lane() / 4;
            const Softmax part = scratch.softmax[place];
            const Softmax before = scratch.whole[place];
            const PartMerge merge(before, part);
            for_each_value(half, [&](int index, int) {
                const int at = index * kThreads + block.thread;
                scratch.whole_totals[at] = merge.of(scratch.whole_totals[at], scratch.totals[at]);
                scratch.totals[at] = 0.0f;
            });
            synchronize_warp();  // all lanes of a query have read its softmax
            scratch.whole[place] = merge.of(before, part);
            scratch.softmax[place] = empty_softmax();
        }
        synchronize_warp();
    }

    __device__ void write_part(const Block& block, const Work& work, const Scratch& scratch) const {
        const Group own = tile_of(work.group, block.warp());
        const int first_query = block.warp() * (kTileQueries / work.group.heads) * work.group.heads;
        for_each_total(block, own, [&](int query, int place, int index, int dim) {
            float* const to = partial(op, work, work.part, first_query + query);
            to[2 + dim] = scratch.totals[index];
            if (dim == 0) {
                to[0] = scratch.softmax[place].maximum;
                to[1] = scratch.softmax[place].sum;
            }
        });
    }

    __device__ void write(const Block& block, const Group& group, const Scratch& scratch) const {
        const Group own = tile_of(group, block.warp());
        for_each_total(block, own, [&](int query, int place, int index, int dim) {
            const int64_t to = own.row(query) * op.out.stride + own.head(query) * op.cache.head_dim + dim;
            store(op.out.data, op.out.format, to, scratch.whole_totals[index] / scratch.whole[place].sum);
        });
    }

  private:
    /// A thread's sums of a span.
    struct Sums {
        float values[kMostUnits][kNTiles][4];
    };

    __device__ Words<4>* queries_of(const Block& block, const Scratch& scratch) const {
        return scratch.queries + block.warp() * units_of(op.cache.head_dim) * kSteps * kWarp;
    }

    /// Attends to one chunk, and merges it with those before it in the span.
    __device__ void add_chunk(const Block& block, const Group& own, const Scratch& scratch,
                              const Copies& copies, int chunk, Softmax (&softmax)[kHalves],
                              Sums& sums) const {
        const int units = units_of(op.cache.head_dim);
        TileScores<kFormat, Copies, false> scores(op, own, block.lane(), chunk);
#pragma unroll
        for (int unit = 0; unit < kMostUnits; ++unit) {
            if (unit < units) {
                scores.multiply(queries_of(block, scratch), copies, unit);
            }
        }
        const TileWeights weights = scores.weights(copies, 0);
        const PartMerge merges[kHalves] = {{softmax[0], weights.softmax[0]},
                                           {softmax[1], weights.softmax[1]}};
#pragma unroll
        for (int unit = 0; unit < kMostUnits; ++unit) {
            if (unit < units) {
                const TileValues<kFormat> values(op, own, weights, copies, unit, block.lane(), chunk);
#pragma unroll
                for (int i = 0; i < kNTiles * 4; ++i) {
                    float& sum = sums.values[unit][i / 4][i % 4];
                    sum = merges[i % 4 / 2].of(sum, values.sums[i / 4][i % 4]);
                }
            }
        }
        softmax[0] = merges[0].of(softmax[0], weights.softmax[0]);
        softmax[1] = merges[1].of(softmax[1], weights.softmax[1]);
    }

    /// Merges a span with those before it in the stretch.
    __device__ void join_span(const Block& block, const Scratch& scratch, const Softmax (&softmax)[kHalves],
                              const Sums& sums) const {
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            Softmax& place = scratch.softmax[block.warp() * kTileQueries + half * 8 + block.lane() / 4];
            const Softmax before = place;
            const PartMerge merge(before, softmax[half]);
#pragma unroll
            for (int i = 0; i < kMostUnits * kNTiles * 2; ++i) {
                if (i / 2 / kNTiles < units_of(op.cache.head_dim)) {
                    const int index = i / 2 * 4 + half * 2 + i % 2;
                    float& total = scratch.totals[index * kThreads + block.thread];
                    total = merge.of(total, sums.values[index / 4 / kNTiles][index / 4 % kNTiles][index % 4]);
                }
            }
            synchronize_warp();  // all lanes of a query have read its softmax
            place = merge.of(before, softmax[half]);
        }
        synchronize_warp();
    }

    /// Calls `body` with a query of the warp's rows, its place, and the index and the dimension of each of
    /// the thread's totals for it.
    template <typename Body>
    __device__ void for_each_total(const Block& block, const Group& own, const Body& body) const {
#pragma unroll 1
        for (int half = 0; half < kHalves; ++half) {
            const int query = half * 8 + block.lane() / 4;
            for_each_value(half, [&](int index, int first_dim) {
                if (query < own.queries()) {
                    body(query, block.warp() * kTileQueries + query, index * kThreads + block.thread,
                         first_dim + block.lane() % 4 * 2);
                }
            });
        }
    }

    /// Calls `body` with the index of each of a thread's values in a half, and the dimension that the first
    /// lane of the value's query has there.
    template <typename Body>
    __device__ void for_each_value(int half, const Body& body) const {
#pragma unroll 1
        for (int i = 0; i < units_of(op.cache.head_dim) * kNTiles * 2; ++i) {
            if (const int dim = i / 2 * 8; dim < op.cache.head_dim) {
                body(i / 2 * 4 + half * 2 + i % 2, dim + i % 2);
            }
        }
    }
};

}  // namespace outrider::cuda
