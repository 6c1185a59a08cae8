// Parts: partial results of a group's context, stored until the last of them has been computed.
#pragma once

#include <cstdint>

#include "cuda/attention/merged_softmax.cuh"
#include "cuda/attention/work_list.cuh"
#include "cuda/primitives/instructions.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {

/// A part's result for one query: a Softmax, and for each dimension the sum of weighted values.
__device__ inline float* partial(const Attention& op, const Work& work, int part, int query) {
    const Group& group = work.group;
    const int64_t row = int64_t{work.first_part} + part * group.rows;
    const int64_t place = row * op.num_heads + group.first_head * group.rows + query;
    return op.scratch + int64_t{kMostParts} * op.num_heads + place * (op.cache.head_dim + 2);
}

/// Parts that are merged when all of them are complete: a stretch's spans, or a group's stretches.
struct Join {
    int first;
    int count;
    int counter;  // part whose counter counts the complete ones
    int to;       // part for the result; negative: the output
    bool is_stretch;

    __device__ bool is_final() const { return to < 0; }
};

constexpr int kNoPart = -1;

/// Joins a stretch's spans; if the group has no other stretch, the result is the output.
__device__ inline Join join_stretch(const Work& work) {
    const int stretch = work.own_stretch();
    const int begin = larger_of(work.first, work.stretch_begin(stretch));
    const int end = smaller_of(work.last + 1, work.stretch_begin(stretch + 1));
    const int to = work.first_stretch_part() + stretch;
    return {begin - work.first, end - begin, to, work.stretches() == 1 ? kNoPart : to, true};
}

__device__ inline Join join_group(const Work& work) {
    return {work.first_stretch_part(), work.stretches(), 0, kNoPart, false};
}

/// Whether this block's part completes a join. `flag` is shared memory. All threads must call.
__device__ inline bool arrives_last(const Block& block, const Attention& op, const Work& work,
                                    const Join& join, int& flag) {
    block.synchronize();  // so that one thread publishes the writes of all
    if (block.thread == 0) {
        publish_writes();
        const int64_t row = int64_t{work.first_part} + join.counter * work.group.rows;
        uint32_t* counter =
            reinterpret_cast<uint32_t*>(op.scratch) + row * op.num_heads + work.group.first_head;
        flag = arrive(counter) + 1 == static_cast<uint32_t>(join.count) ? 1 : 0;
        if (flag != 0) {
            *counter = 0;  // for the next attention
            publish_writes();
        }
    }
    block.synchronize();
    return flag != 0;
}

/// A query's softmax so far, and the sums of weighted values in some of a lane's dimensions.
struct MergedParts {
    static constexpr int kDims = 4;
    static constexpr int kAhead = 4;

    Softmax softmax;
    float totals[kDims] = {};

    __device__ static int dim(int first, int i) { return first + i * kWarp; }

    __device__ void add(const Softmax& part, const float (&values)[kDims]) {
        if (is_empty(part)) {
            return;
        }
        const Merge merge(softmax, part);
        softmax = {merge.maximum, merge.of(softmax.sum, part.sum)};
#pragma unroll
        for (int k = 0; k < kDims; ++k) {
            totals[k] = merge.of(totals[k], values[k]);
        }
    }

    /// Adds parts in order.
    __device__ void add_all(const float* from, int64_t stride, int count, int first_dim, int value_dim) {
#pragma unroll 1
        for (int first = 0; first < count; first += kAhead) {
            Softmax parts[kAhead];
            float values[kAhead][kDims];
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {  // all loads are issued before the first result is used
                const float* part = from + smaller_of(first + i, count - 1) * stride;
                parts[i] = {load_written(part), load_written(part + 1)};
#pragma unroll
                for (int k = 0; k < kDims; ++k) {
                    values[i][k] = load_written(part + 2 + smaller_of(dim(first_dim, k), value_dim - 1));
                }
            }
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                add(first + i < count ? parts[i] : empty_softmax(), values[i]);
            }
        }
    }
};

__device__ inline void write_merged(const Attention& op, const Group& group, int query, int first,
                                    const MergedParts& merged) {
    const int value_dim = op.cache.value_dim();
    const int64_t index = group.row(query) * op.out.stride + group.head(query) * value_dim;
#pragma unroll
    for (int k = 0; k < MergedParts::kDims; ++k) {
        if (const int dim = MergedParts::dim(first, k); dim < value_dim) {
            store(op.out.data, op.out.format, index + dim, merged.totals[k] / merged.softmax.sum);
        }
    }
}

__device__ inline void write_stretch(float* to, int first, int value_dim, const MergedParts& merged) {
    if (first == 0) {
        to[0] = merged.softmax.maximum;
        to[1] = merged.softmax.sum;
    }
#pragma unroll
    for (int k = 0; k < MergedParts::kDims; ++k) {
        if (const int dim = MergedParts::dim(first, k); dim < value_dim) {
            to[2 + dim] = merged.totals[k];
        }
    }
}

/// Merges the parts of a join for one query; called by a warp.
__device__ inline void merge_parts(const Block& block, const Attention& op, const Work& work,
                                   const Join& join, int query) {
    const int value_dim = op.cache.value_dim();
    const int64_t stride = partial(op, work, 1, 0) - partial(op, work, 0, 0);
    const float* from = partial(op, work, join.first, query);
    const Softmax sink = first_softmax(op, work.group.head(query));
#pragma unroll 1
    for (int first = block.lane(); first < value_dim; first += MergedParts::kDims * kWarp) {
        MergedParts merged{join.is_stretch ? empty_softmax() : sink};
        merged.add_all(from, stride, join.count, first, value_dim);
        if (join.is_final() && join.is_stretch) {
            MergedParts whole{sink};
            whole.add(merged.softmax, merged.totals);
            merged = whole;
        }
        if (join.is_final()) {
            write_merged(op, work.group, query, first, merged);
        } else {
            write_stretch(partial(op, work, join.to, query), first, value_dim, merged);
        }
    }
}

/// Merges the joins that this block's part completes; the part must have been written. No block waits for
/// another, and the bits do not depend on which block merges. All threads of the block must call.
///
/// Not inlined: inlined, its barriers kept ptxas 13.0 from reconverging the lanes of a warp after a loop
/// before it, and the lanes that left the loop first overwrote uniform registers that the others still needed
/// (seen on an H200, as stores to wrong addresses).
template <int kThreads>
__device__ __noinline__ void finish_part(Block block, const Attention& op, const Work& work, int& flag) {
    bool is_whole = !work.is_span;
#pragma unroll 1
    for (;;) {
        const Join join = is_whole ? join_group(work) : join_stretch(work);
        if (!arrives_last(block, op, work, join, flag)) {
            return;
        }
#pragma unroll 1
        for (int query = block.warp(); query < work.group.queries(); query += kThreads / kWarp) {
            merge_parts(block, op, work, join, query);
        }
        if (join.is_final()) {
            return;
        }
        is_whole = true;
    }
}

}  // namespace outrider::cuda
