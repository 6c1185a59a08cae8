// RMSNorm (Zhang, Sennrich, arXiv 1910.07467): its factor.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/primitives/launch.cuh"

namespace outrider::cuda {

/// 1 / sqrt(mean(x^2) + eps), the sum in order.
__device__ inline float inverse_rms(const float* values, int64_t width, float eps) {
    float sum = 0.0f;
    for (int64_t column = 0; column < width; ++column) {
        sum = fmaf(values[column], values[column], sum);
    }
    return 1.0f / sqrtf(sum / static_cast<float>(width) + eps);
}

}  // namespace outrider::cuda
