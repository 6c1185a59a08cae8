// Parts: what blocks have computed of a group's context, kept until the last of them is there.
#pragma once

#include <cstdint>

#include "cuda/attention/merged_softmax.cuh"
#include "cuda/attention/work_list.cuh"
#include "cuda/primitives/instructions.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {

/// What a part gives one head of a row: a Softmax, and for each dimension the sum of weighted values.
__device__ inline float* partial(const Attention& op, const Work& work, int part, int query) {
    const int64_t row = work.first_part + int64_t{part} * work.group.rows + query / work.group.heads;
    const int64_t head = work.group.head(query);
    return op.scratch + kMostParts * op.num_heads + (row * op.num_heads + head) * (op.cache.head_dim + 2);
}

/// Parts that become one when they are all there: a stretch's spans, or a group's stretches.
struct Join {
    int first;
    int count;
    int counter;  // the part whose place counts those that are there
    int to;       // a part; none: the output
};

constexpr int kNoPart = -1;

__device__ inline Join join_stretch(const Work& work) {
    const int stretch = work.own_stretch();
    const int begin = larger_of(work.first, work.stretch_begin(stretch));
    const int end = smaller_of(work.last + 1, work.stretch_begin(stretch + 1));
    const int to = work.first_stretch_part() + stretch;
    return {begin - work.first, end - begin, to, to};
}

__device__ inline Join join_group(const Work& work) {
    return {work.first_stretch_part(), work.stretches(), 0, kNoPart};
}

/// Whether all parts of a join but this block's were there before. `flag` is shared. Every thread calls.
__device__ inline bool arrives_last(const Block& block, const Attention& op, const Work& work,
                                    const Join& join, int& flag) {
    publish_writes();
    block.synchronize();
    if (block.thread == 0) {
        const int64_t row = work.first_part + int64_t{join.counter} * work.group.rows;
        uint32_t* counter =
            reinterpret_cast<uint32_t*>(op.scratch) + row * op.num_heads + work.group.first_head;
        flag = arrive(counter) + 1 == static_cast<uint32_t>(join.count) ? 1 : 0;
        if (flag != 0) {
            *counter = 0;  // for the next attention
        }
        publish_writes();
    }
    block.synchronize();
    return flag != 0;
}

/// One dimension of one query, of the parts of a join in their order.
__device__ inline void merge_parts(const Attention& op, const Work& work, const Join& join, int query,
                                   int dim) {
    constexpr int kAhead = 4;
    Softmax softmax = empty_softmax();
    float total = 0.0f;
#pragma unroll 1
    for (int first = 0; first < join.count; first += kAhead) {
        Softmax parts[kAhead];
        float values[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {  // all are on their way before the first is looked at
            const int part = join.first + smaller_of(first + i, join.count - 1);
            const float* from = partial(op, work, part, query);
            parts[i] = {load_written(from), load_written(from + 1)};
            values[i] = load_written(from + 2 + dim);
        }
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            if (first + i < join.count && !is_empty(parts[i])) {
                const Merge merge(softmax, parts[i]);
                total = merge.of(total, values[i]);
                softmax = {merge.maximum, merge.of(softmax.sum, parts[i].sum)};
            }
        }
    }
    if (join.to == kNoPart) {
        const int64_t index =
            work.group.row(query) * op.out.stride + int64_t{work.group.head(query)} * op.cache.head_dim + dim;
        store(op.out.data, op.out.format, index, total / softmax.sum);
        return;
    }
    float* to = partial(op, work, join.to, query);
    to[2 + dim] = total;
    if (dim == 0) {
        to[0] = softmax.maximum;
        to[1] = softmax.sum;
    }
}

/// Merges what is complete with this block's part, which it has written: nobody else waits for that, and who
/// does it changes no bit. Every thread of the block calls.
template <int kThreads>
__device__ void finish_part(const Block& block, const Attention& op, const Work& work, int& flag) {
    bool is_whole = !work.is_span;
#pragma unroll 1
    for (;;) {
        const Join join = is_whole ? join_group(work) : join_stretch(work);
        if (!arrives_last(block, op, work, join, flag)) {
            return;
        }
        const int head_dim = op.cache.head_dim;
#pragma unroll 1
        for (int i = block.thread; i < work.group.queries() * head_dim; i += kThreads) {
            merge_parts(op, work, join, i / head_dim, i % head_dim);
        }
        if (is_whole) {
            return;
        }
        is_whole = true;
    }
}

}  // namespace outrider::cuda
