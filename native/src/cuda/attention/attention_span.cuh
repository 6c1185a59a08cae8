// Spans: the context cut at absolute multiples of kSpan positions, and stretches of them. A stretch's spans
// are merged in their order, and then the stretches in theirs.
#pragma once

#include <cstdint>

#include "cuda/attention/merged_softmax.cuh"
#include "cuda/primitives/launch.cuh"
#include "outrider/device/host_device.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

constexpr int kChunks = 8;  // of a span: blocks of the cache
constexpr int kSpan = kChunks * kBlockSize;
constexpr int kStretch = 8;  // spans

__device__ inline int larger_of(int left, int right) {
    return left > right ? left : right;
}
__device__ inline int smaller_of(int left, int right) {
    return left < right ? left : right;
}

inline int spans_of(int max_blocks) {
    return (max_blocks + kChunks - 1) / kChunks;
}

/// Where a row's attention begins; it ends at the row itself.
__device__ inline int first_position(const Attention& op, int position) {
    return op.window > 0 && position >= op.window ? position - op.window + 1 : 0;
}

/// Positions that a row attends to, both ends included.
struct Range {
    int first;
    int last;

    __device__ bool has(int position) const { return position >= first && position <= last; }
    __device__ bool meets(int start, int count) const { return start <= last && start + count > first; }
    /// Ones in the halves of a register that belong to two neighbouring positions, where the range has them.
    __device__ uint32_t mask(int position) const {
        return (has(position) ? 0x0000FFFFu : 0) | (has(position + 1) ? 0xFFFF0000u : 0);
    }
};

__device__ inline Range range_of(const Attention& op, int position) {
    return {first_position(op, position), position};
}

/// A span's maximum for one of `queries`, of those of its chunks.  # [kChunks, queries]
__device__ inline float span_maximum(const float* maxima, int queries, int query) {
    float maximum = maxima[query];
#pragma unroll
    for (int chunk = 1; chunk < kChunks; ++chunk) {
        maximum = Greater()(maximum, maxima[chunk * queries + query]);
    }
    return maximum;
}

/// The same with the sums, which are below that maximum already and are added in the chunks' order.
__device__ inline Softmax span_softmax(const float* maxima, const float* sums, int queries, int query) {
    float sum = sums[query];
#pragma unroll
    for (int chunk = 1; chunk < kChunks; ++chunk) {
        sum += sums[chunk * queries + query];
    }
    return {span_maximum(maxima, queries, query), sum};
}

}  // namespace outrider::cuda
