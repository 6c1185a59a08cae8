// Spans: the context cut at absolute multiples of kSpan positions.
#pragma once

#include <cstdint>

#include "cuda/attention/merged_softmax.cuh"
#include "cuda/primitives/launch.cuh"
#include "outrider/device/host_device.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

constexpr int kChunks = 8;  // of a span: blocks of the cache
constexpr int kSpan = kChunks * kBlockSize;

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

/// What a span gives one head of a row: a Softmax, and for each dimension the sum of weighted values.
__device__ inline float* partial(const Attention& op, int spans, int64_t row, int64_t head, int span) {
    return op.scratch + ((row * op.num_heads + head) * spans + span) * (op.cache.head_dim + 2);
}

}  // namespace outrider::cuda
