// FloatAttention: attention on the float units, by fused multiply-adds.
#pragma once

#include "cuda/attention/attend_works.cuh"
#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/kv_block.cuh"
#include "cuda/attention/merged_softmax.cuh"
#include "cuda/primitives/reduce.cuh"

namespace outrider::cuda {

/// The shared memory of a block.
struct FloatScratch {
    static constexpr int kQueries = 16;
    static constexpr int kDimsAtOnce = 2 * kWarp;

    float* queries;       // [head_dim, kQueries]
    float* totals;        // [kQueries, head_dim], of the stretch's spans so far
    float* whole_totals;  // the same, of the stretches so far
    float* weights;       // [kChunks, kQueries, kBlockSize]
    float* values;        // [kChunks, kQueries, kDimsAtOnce]
    float* maxima;        // [kChunks, kQueries]
    float* sums;          // [kChunks, kQueries]
    Softmax* softmax;     // [kQueries], of the stretch's spans so far
    Softmax* whole;       // [kQueries], of the stretches so far

    __device__ FloatScratch(char* shared, int head_dim, const Depth&)
        : queries(reinterpret_cast<float*>(shared)),
          totals(queries + head_dim * kQueries),
          whole_totals(totals + kQueries * head_dim),
          weights(whole_totals + kQueries * head_dim),
          values(weights + kChunks * kQueries * kBlockSize),
          maxima(values + kChunks * kQueries * kDimsAtOnce),
          sums(maxima + kChunks * kQueries),
          softmax(reinterpret_cast<Softmax*>(sums + kChunks * kQueries)),
          whole(softmax + kQueries) {}

    OUTRIDER_HOST_DEVICE static size_t bytes(int head_dim, const Depth&) {
        const size_t floats = 3 * static_cast<size_t>(head_dim) * kQueries +
                              kChunks * kQueries * (kBlockSize + kDimsAtOnce + 2) + 4 * kQueries;
        return floats * sizeof(float);
    }
};

/// The blocks share the works of a WorkList.
template <KvFormat kFormat>
struct FloatAttention {
    using Scratch = FloatScratch;
    static constexpr int kThreads = kChunks * kWarp;
    static constexpr int kBlocksPerMultiprocessor = 2;
    static constexpr bool kIsReferenced = true;
    using WaitsItself = void;
    static constexpr int kQueries = FloatScratch::kQueries;
    static constexpr int kDimsAtOnce = FloatScratch::kDimsAtOnce;
    static constexpr int kFewQueries = 4;  // enough for one row

    Attention op;
    Sharing sharing;
    Grouping grouping;
    Depth depth;

    /// Placeholder: this kernel reads the cache directly.
    struct Copies {
        __device__ void begin_all() const {}
    };
    static size_t copy_bytes(int) { return 0; }
    __device__ Copies begin_copies(const Block&, const Group&, char*, int, int) const { return {}; }

    static Grouping grouping_of(const Attention& op) { return Grouping::of(op, 4, 4); }

    __device__ void operator()(const Block& block) const { attend_works(block, *this); }

    __device__ void attend(const Block& block, const Group& group, const FloatScratch& scratch, Copies&,
                           int span) const {
        if (group.queries() <= kFewQueries) {
            attend_span<kFewQueries>(block, group, scratch, span);
        } else {
            attend_span<kQueries>(block, group, scratch, span);
        }
        block.synchronize();
    }

    /// Merges the result of a stretch with the stretches before it, and resets it.
    __device__ void end_stretch(const Block& block, const Group& group, const FloatScratch& scratch) const {
        for_each_total(block, group, [&](int i, int query, int) {
            if (const Softmax part = scratch.softmax[query]; !is_empty(part)) {
                float& before = scratch.whole_totals[i];
                before = Merge(scratch.whole[query], part).of(before, scratch.totals[i]);
            }
            scratch.totals[i] = 0.0f;
        });
        block.synchronize();
        if (block.thread < group.queries()) {
            add_to(scratch.whole[block.thread], scratch.softmax[block.thread]);
            scratch.softmax[block.thread] = empty_softmax();
        }
        block.synchronize();
    }

    __device__ void write(const Block& block, const Group& group, const FloatScratch& scratch) const {
        for_each_total(block, group, [&](int i, int query, int dim) {
            if (const int width = op.cache.value_dim(); dim < width) {
                const int64_t index = group.row(query) * op.out.stride + group.head(query) * width + dim;
                store(op.out.data, op.out.format, index, scratch.whole_totals[i] / scratch.whole[query].sum);
            }
        });
    }

    __device__ void write_part(const Block& block, const Work& work, const FloatScratch& scratch) const {
        for_each_total(block, work.group, [&](int i, int query, int dim) {
            float* to = partial(op, work, work.part, query);
            to[2 + dim] = scratch.totals[i];
            if (dim == 0) {
                to[0] = scratch.softmax[query].maximum;
                to[1] = scratch.softmax[query].sum;
            }
        });
    }

    template <typename Body>
    __device__ void for_each_total(const Block& block, const Group& group, const Body& body) const {
        for (int i = block.thread; i < group.queries() * op.cache.head_dim; i += kThreads) {
            body(i, i / op.cache.head_dim, i % op.cache.head_dim);
        }
    }

    __device__ void begin(const Block& block, const Group& group, const FloatScratch& scratch) const {
        const int head_dim = op.cache.head_dim;
        for (int i = block.thread; i < kQueries * head_dim; i += kThreads) {
            const int query = i / head_dim;
            const int dim = i % head_dim;
            const bool is_there = query < group.queries();
            const float* heads = op.qkv + (is_there ? group.row(query) * op.qkv_stride : 0);
            scratch.queries[dim * kQueries + query] =
                is_there ? heads[group.head(query) * head_dim + dim] : 0.0f;
            scratch.totals[i] = scratch.whole_totals[i] = 0.0f;
        }
        if (block.thread < kQueries) {
            scratch.softmax[block.thread] = empty_softmax();
            scratch.whole[block.thread] = first_softmax(op, group.head(block.thread));
        }
        block.synchronize();
    }

    template <int kCount>
    __device__ void attend_span(const Block& block, const Group& group, const FloatScratch& scratch,
                                int span) const {
        const int chunk = span * kChunks + block.warp();
        const int start = chunk * kBlockSize;
        const bool is_read = group.reads(chunk);
        KvBlock kv{};
        if (is_read) {
            kv = block_of(op, group, chunk);
        }
        float scores[kCount];
        score<kCount>(block, group, scratch, kv, start, is_read, scores);
        block.synchronize();
        weigh<kCount>(block, group, scratch, kv, start, scores);
        for (int first = 0; first < op.cache.value_dim(); first += kDimsAtOnce) {
            add_values<kCount>(block, group, scratch, kv, start, is_read, first);
            block.synchronize();
            merge_values(block, group, scratch, first);
            block.synchronize();
        }
        if (const int query = block.thread; query < group.queries()) {
            add_to(scratch.softmax[query], span_softmax(scratch.maxima, scratch.sums, kQueries, query));
        }
    }

    /// Computes the scores of the lane's position, minus infinity for queries that do not attend to it, and
    /// the chunk's maxima.
    template <int kCount>
    __device__ void score(const Block& block, const Group& group, const FloatScratch& scratch,
                          const KvBlock& kv, int start, bool is_read, float (&scores)[kCount]) const {
        for (int query = 0; query < kCount; ++query) {
            scores[query] = 0.0f;
        }
        const int slot = block.lane();
        if (is_read) {
#pragma unroll 8
            for (int dim = 0; dim < op.cache.head_dim; ++dim) {
                const float key = kv.key<kFormat>(slot, dim);
                const float* queries = scratch.queries + dim * kQueries;
#pragma unroll
                for (int query = 0; query < kCount; ++query) {
                    scores[query] = fmaf(queries[query], key, scores[query]);
                }
            }
        }
        const float scale = is_read ? kv.scale<kFormat>(true, slot) : 0.0f;
#pragma unroll
        for (int query = 0; query < kCount; ++query) {
            if (query < group.queries()) {
                scores[query] = finish(group, query, start + slot, scores[query] * scale);
                const float maximum = reduce_warp(scores[query], Greater());
                if (slot == 0) {
                    scratch.maxima[block.warp() * kQueries + query] = maximum;
                }
            }
        }
    }

    __device__ float finish(const Group& group, int query, int position, float score) const {
        if (!is_attended(group, query, position)) {
            return minus_infinity();
        }
        return op.softcap != 0.0f ? soft_capped(score, op.softcap) : score;
    }

    __device__ bool is_attended(const Group& group, int query, int position) const {
        return range_of(op, group.position_of(query)).has(position);
    }

    /// Turns scores into weights, and computes their sums.
    template <int kCount>
    __device__ void weigh(const Block& block, const Group& group, const FloatScratch& scratch,
                          const KvBlock& kv, int start, const float (&scores)[kCount]) const {
        const int slot = block.lane();
#pragma unroll
        for (int query = 0; query < kCount; ++query) {
            if (query < group.queries()) {
                const bool attended = is_attended(group, query, start + slot);
                const float maximum = span_maximum(scratch.maxima, kQueries, query);
                const float weight = attended ? exponential(scores[query] - maximum) : 0.0f;
                const float sum = reduce_warp(weight, Sum());
                const int64_t place = block.warp() * kQueries + query;
                scratch.weights[place * kBlockSize + slot] =
                    attended ? weight * kv.scale<kFormat>(false, slot) : 0.0f;
                if (slot == 0) {
                    scratch.sums[place] = sum;
                }
            }
        }
        synchronize_warp();
    }

    /// Sums up the chunk's weighted values in some dimensions. Values with a weight of zero are skipped,
    /// since they may be infinite if only other rows attend to them. Positions that no row attends to may
    /// hold NaN, and are not read.
    template <int kCount>
    __device__ void add_values(const Block& block, const Group& group, const FloatScratch& scratch,
                               const KvBlock& kv, int start, bool is_read, int first) const {
        float sums[kCount][2] = {};
        const int low = first + block.lane();
        const int high = low + kWarp;
        const float* weights = scratch.weights + block.warp() * kQueries * kBlockSize;
        const int begin = larger_of(first_position(op, group.position) - start, 0);
        const int end = is_read ? smaller_of(group.last() + 1 - start, kBlockSize) : 0;
#pragma unroll 4
        for (int slot = begin; slot < end; ++slot) {
            const float value = low < op.cache.value_dim() ? kv.value<kFormat>(slot, low) : 0.0f;
            const float other = high < op.cache.value_dim() ? kv.value<kFormat>(slot, high) : 0.0f;
#pragma unroll
            for (int query = 0; query < kCount; ++query) {
                const float weight = query < group.queries() ? weights[query * kBlockSize + slot] : 0.0f;
                sums[query][0] = weight != 0.0f ? fmaf(weight, value, sums[query][0]) : sums[query][0];
                sums[query][1] = weight != 0.0f ? fmaf(weight, other, sums[query][1]) : sums[query][1];
            }
        }
        float* values = scratch.values + block.warp() * kQueries * kDimsAtOnce;
#pragma unroll
        for (int query = 0; query < kCount; ++query) {
            values[query * kDimsAtOnce + block.lane()] = sums[query][0];
            values[query * kDimsAtOnce + kWarp + block.lane()] = sums[query][1];
        }
    }

    /// Adds up the chunks in order, and merges them with the spans before.
    __device__ void merge_values(const Block& block, const Group& group, const FloatScratch& scratch,
                                 int first) const {
        for (int i = block.thread; i < group.queries() * kDimsAtOnce; i += kThreads) {
            const int query = i / kDimsAtOnce;
            const int dim = first + i % kDimsAtOnce;
            if (dim >= op.cache.value_dim()) {
                continue;
            }
            float total = scratch.values[i];
            for (int chunk = 1; chunk < kChunks; ++chunk) {
                total += scratch.values[chunk * kQueries * kDimsAtOnce + i];
            }
            if (const Softmax part = span_softmax(scratch.maxima, scratch.sums, kQueries, query);
                !is_empty(part)) {
                float& before = scratch.totals[query * op.cache.head_dim + dim];
                before = Merge(scratch.softmax[query], part).of(before, total);
            }
        }
    }

    __device__ static void add_to(Softmax& before, const Softmax& part) {
        if (!is_empty(part)) {
            const Merge merge(before, part);
            before = {merge.maximum, merge.of(before.sum, part.sum)};
        }
    }
};

}  // namespace outrider::cuda
