// Spans: the context, cut at absolute multiples of kSpan positions; several spans form a stretch. A stretch's
// spans are merged in order, and then the stretches in order.
#pragma once

#include <cstdint>

#include "cuda/attention/merged_softmax.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/values/bounds.cuh"
#include "outrider/device/host_device.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

constexpr int kChunks = 8;  // chunks of a span: blocks of the cache
constexpr int kSpan = kChunks * kBlockSize;
constexpr int kStretch = 8;  // spans of a stretch

inline int spans_of(int max_blocks) {
    return (max_blocks + kChunks - 1) / kChunks;
}

/// The position of the first key that a row attends to; `position` is that of the last one.
__device__ inline int first_position(const Attention& op, int position) {
    return op.window > 0 && position >= op.window ? position - op.window + 1 : 0;
}

/// The positions that a row attends to, both ends included.
struct Range {
    int first;
    int last;

    __device__ bool has(int position) const { return position >= first && position <= last; }
    __device__ bool meets(int start, int count) const { return start <= last && start + count > first; }
    /// A mask for two neighbouring positions in the halves of a register: ones for positions in the range.
    __device__ uint32_t mask(int position) const {
        return (has(position) ? 0x0000FFFFu : 0) | (has(position + 1) ? 0xFFFF0000u : 0);
    }
};

__device__ inline Range range_of(const Attention& op, int position) {
    return {first_position(op, position), position};
}

/// A query's maximum over the chunks of a span.  # maxima: [kChunks, queries]
__device__ inline float span_maximum(const float* maxima, int queries, int query) {
    float maximum = maxima[query];
#pragma unroll
    for (int chunk = 1; chunk < kChunks; ++chunk) {
        maximum = Greater()(maximum, maxima[chunk * queries + query]);
    }
    return maximum;
}

/// The maximum and the sum over the chunks, whose sums are relative to that maximum already; added in order.
__device__ inline Softmax span_softmax(const float* maxima, const float* sums, int queries, int query) {
    float sum = sums[query];
#pragma unroll
    for (int chunk = 1; chunk < kChunks; ++chunk) {
        sum += sums[chunk * queries + query];
    }
    return {span_maximum(maxima, queries, query), sum};
}

}  // namespace outrider::cuda
