// The factor of RMSNorm (Zhang, Sennrich, arXiv 1910.07467).
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/primitives/reduce.cuh"

namespace outrider::cuda {

/// 1 / sqrt(mean(x^2) + eps)
__device__ inline float inverse_rms(float sum_of_squares, int64_t width, float eps) {
    return 1.0f / sqrtf(sum_of_squares / static_cast<float>(width) + eps);
}

/// The sum over a block, lane by lane and then warp by warp. Shared memory needs room for a float of each
/// warp.
template <int kThreads>
__device__ float sum_of_block(const Block& block, float value) {
    auto* sums = reinterpret_cast<float*>(block.shared);
    value = reduce_warp(value, Sum());
    block.synchronize();  // the previous sum has been read
    if (block.lane() == 0) {
        sums[block.warp()] = value;
    }
    block.synchronize();
    float total = 0.0f;
    for (int warp = 0; warp < kThreads / kWarp; ++warp) {
        total += sums[warp];
    }
    return total;
}

}  // namespace outrider::cuda
