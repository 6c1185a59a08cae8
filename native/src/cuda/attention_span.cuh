// Spans: the context cut at absolute multiples of kSpan positions.
#pragma once

#include <cstdint>

#include "cuda/launch.cuh"
#include "outrider/host_device.h"
#include "outrider/operations.h"

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

/// What a span gives one head of a row: a Softmax, and for each dimension the sum of weighted values.
__device__ inline float* partial(const Attention& op, int spans, int64_t row, int64_t head, int span) {
    return op.scratch + ((row * op.num_heads + head) * spans + span) * (op.cache.head_dim + 2);
}

}  // namespace outrider::cuda
