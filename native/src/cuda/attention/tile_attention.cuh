// TileAttention: attention on tensor cores. Queries are the rows of an mma_m16n8k16, which do not affect one
// another; its columns are positions when queries are multiplied with keys, and dimensions when weights are
// multiplied with values. Each warp attends to one cache block by itself, relative to the maximum of that
// block; then all threads merge the results of the warps in the order of the positions.
//
// Keys and values are stored in the register layout of the instruction, and the weights of a lane are its
// left operand: no warp waits for another before the merge.
#pragma once

#include "cuda/attention/attend_works.cuh"
#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/tile_attention_scratch.cuh"
#include "cuda/attention/tile_copies.cuh"
#include "cuda/attention/tile_scores.cuh"
#include "cuda/attention/tile_values.cuh"

namespace outrider::cuda {

/// The blocks share the works of a WorkList.
template <KvFormat kFormat, bool kIsCapped, bool kIsLatent = false>
struct TileAttention {
    using Scratch = TileAttentionScratch;
    using Copies = TileCopies<kFormat, kIsLatent>;
    static constexpr int kThreads = Scratch::kThreads;
    static constexpr int kBlocksPerMultiprocessor = 2;
    static constexpr bool kIsReferenced = true;
    using WaitsItself = void;
    static constexpr int kQueries = Scratch::kQueries;
    static constexpr int kDims = 4;  // neighbouring dimensions that a thread merges at once

    Attention op;
    Sharing sharing;
    Grouping grouping;
    Depth depth;

    static size_t copy_bytes(int stages) { return Copies::bytes(stages); }

    static Grouping grouping_of(const Attention& op) { return grouping_of_tiles(op, 1); }

    __device__ void operator()(const Block& block) const { attend_works(block, *this); }

    __device__ Copies begin_copies(const Block& block, const Group& group, char* memory, int begin,
                                   int end) const {
        return Copies(block, op, group, memory, depth.stages, begin, end);
    }

    __device__ void begin(const Block& block, const Group& group, const Scratch& scratch) const {
        for (int i = block.thread; i < units_of(op.cache.head_dim) * kSteps * kWarp; i += kThreads) {
            scratch.queries[i] = query_operand(op, group, i);
        }
        if (block.thread < kQueries) {
            scratch.softmax[block.thread] = empty_softmax();
            scratch.whole[block.thread] = first_softmax(op, group.head(block.thread));
        }
        for (int i = block.thread; i < kQueries * op.cache.head_dim; i += kThreads) {
            scratch.totals[i] = 0.0f;
            scratch.whole_totals[i] = 0.0f;
        }
        block.synchronize();
    }

    __device__ void attend(const Block& block, const Group& group, const Scratch& scratch, Copies& copies,
                           int span) const {
        const int units = units_of(op.cache.value_dim());
        const TileWeights weights = score(block, group, scratch, copies, span);
        store_parts(block, weights, scratch);
#pragma unroll 1
        for (int first = 0; first < units; first += depth.round_units) {
            const int end = smaller_of(first + depth.round_units, units);
            add_values(block, group, weights, scratch, copies, span, first, end);
            block.synchronize();
            if (first == 0) {
                make_merges(block, group, scratch);
                block.synchronize();
            }
            merge_sums(block, group, scratch, first * kUnitDims);
            if (end == units && block.thread < group.queries()) {
                Softmax& before = scratch.softmax[block.thread];
                before = scratch.joins[block.thread].of(before, scratch.softmax_of_span(block.thread));
            }
            block.synchronize();  // the sums and merges have been read
        }
    }

    /// Merges the result of a stretch with the stretches before it, and resets it.
    __device__ void end_stretch(const Block& block, const Group& group, const Scratch& scratch) const {
        if (block.thread < group.queries()) {
            const int query = block.thread;
            const Softmax part = scratch.softmax[query];
            scratch.joins[query] = PartMerge(scratch.whole[query], part);
            scratch.whole[query] = scratch.joins[query].of(scratch.whole[query], part);
            scratch.softmax[query] = empty_softmax();
        }
        block.synchronize();
        for_each_total(block, group, op.cache.value_dim(), [&](int query, int dim) {
            const int place = query * op.cache.head_dim + dim;
#pragma unroll
            for (int i = 0; i < kDims; ++i) {
                float& total = scratch.whole_totals[place + i];
                total = scratch.joins[query].of(total, scratch.totals[place + i]);
                scratch.totals[place + i] = 0.0f;
            }
        });
    }

    __device__ void write_part(const Block& block, const Work& work, const Scratch& scratch) const {
        if (block.thread < work.group.queries()) {
            float* to = partial(op, work, work.part, block.thread);
            to[0] = scratch.softmax[block.thread].maximum;
            to[1] = scratch.softmax[block.thread].sum;
        }
        for_each_total(block, work.group, op.cache.value_dim(), [&](int query, int dim) {
            float* const to = partial(op, work, work.part, query) + 2 + dim;
#pragma unroll
            for (int i = 0; i < kDims; ++i) {
                to[i] = scratch.totals[query * op.cache.head_dim + dim + i];
            }
        });
    }

    __device__ void write(const Block& block, const Group& group, const Scratch& scratch) const {
        const int value_dim = op.cache.value_dim();
        for_each_total(block, group, value_dim, [&](int query, int dim) {
            const int64_t to = group.row(query) * op.out.stride + group.head(query) * value_dim + dim;
#pragma unroll
            for (int i = 0; i < kDims; ++i) {
                store(op.out.data, op.out.format, to + i,
                      scratch.whole_totals[query * op.cache.head_dim + dim + i] / scratch.whole[query].sum);
            }
        });
    }

  private:
    /// Computes a warp's weights for its chunk of the span.
    __device__ TileWeights score(const Block& block, const Group& group, const Scratch& scratch,
                                 Copies& copies, int span) const {
        const int chunk = span * kChunks + block.warp();
        const bool is_read = group.reads(chunk);
        TileScores<kFormat, Copies, kIsCapped, kIsLatent> scores(op, group, block.lane(), chunk);
#pragma unroll 1
        for (int unit = 0; unit < units_of(op.cache.head_dim); ++unit) {
            if (is_read) {
                copies.wait();
                if (kIsLatent && unit == units_of(op.cache.value_dim())) {
                    scores.end_latents(copies, span);
                }
                scores.multiply(scratch.queries, copies, unit);
            }
            copies.advance();
        }
        return is_read ? scores.weights(copies, span) : scores.no_weights();
    }

    __device__ static void store_parts(const Block& block, const TileWeights& weights,
                                       const Scratch& scratch) {
#pragma unroll
        for (int half = 0; half < TileWeights::kHalves; ++half) {
            if (block.lane() % 4 == 0) {
                scratch.parts[block.warp() * kQueries + half * 8 + block.lane() / 4] = weights.softmax[half];
            }
        }
    }

    /// Computes a warp's sums of some units, if it reads its chunk of the span.
    __device__ void add_values(const Block& block, const Group& group, const TileWeights& weights,
                               const Scratch& scratch, Copies& copies, int span, int first, int end) const {
        const int chunk = span * kChunks + block.warp();
        const bool is_read = group.reads(chunk);
#pragma unroll 1
        for (int unit = first; unit < end; ++unit) {
            if (is_read) {
                copies.wait();
                const TileValues<kFormat> values(op, group, weights, copies, unit, block.lane(), chunk);
                values.store(scratch, group, block.warp(), block.lane(), (unit - first) * kUnitDims);
            }
            copies.advance();
        }
    }

    /// Computes how each chunk is merged with those before it in the span, and the span with the stretch.
    __device__ static void make_merges(const Block& block, const Group& group, const Scratch& scratch) {
        const int query = block.thread % kQueries;
        const int chunk = block.thread / kQueries;
        if (query < group.queries() && chunk <= kChunks) {
            const float maximum = scratch.maximum_of(query, chunk);
            if (chunk < kChunks) {
                const int place = chunk * kQueries + query;
                scratch.merges[place] = PartMerge({maximum, 0.0f}, scratch.parts[place]);
            } else {
                scratch.joins[query] = PartMerge(scratch.softmax[query], {maximum, 0.0f});
            }
        }
    }

    /// Merges the sums of all chunks in the dimensions of a round.
    __device__ void merge_sums(const Block& block, const Group& group, const Scratch& scratch,
                               int first_dim) const {
        const int dims = smaller_of(scratch.round_dims, op.cache.value_dim() - first_dim);
        for_each_total(block, group, dims, [&](int query, int dim) {
            float merged[kDims] = {};
#pragma unroll
            for (int chunk = 0; chunk < kChunks; ++chunk) {
                const PartMerge& merge = scratch.merges[chunk * kQueries + query];
                if (!merge.is_empty) {
                    const auto sums =
                        read_words<4>(reinterpret_cast<const char*>(scratch.sums_of(chunk, query) + dim));
#pragma unroll
                    for (int i = 0; i < kDims; ++i) {
                        merged[i] = merge.merge.of(merged[i], bit_cast<float>(sums.words[i]));
                    }
                }
            }
            float* const totals = scratch.totals + query * op.cache.head_dim + first_dim + dim;
#pragma unroll
            for (int i = 0; i < kDims; ++i) {
                totals[i] = scratch.joins[query].of(totals[i], merged[i]);
            }
        });
    }

    /// Calls `body` for the dimensions that a thread merges, kDims at a time; each query belongs to one warp.
    template <typename Body>
    __device__ static void for_each_total(const Block& block, const Group& group, int dims,
                                          const Body& body) {
#pragma unroll 1
        for (int query = block.warp(); query < group.queries(); query += kThreads / kWarp) {
#pragma unroll 1
            for (int first = 0; first < dims; first += kWarp * kDims) {
                if (const int dim = first + block.lane() * kDims; dim < dims) {
                    body(query, dim);
                }
            }
        }
    }
};

}  // namespace outrider::cuda
