// One output of the float32 matrix product.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/values/values.cuh"
#include "cuda/weights/weight_view.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

/// Computes and writes one output, summed along K in order.
__device__ inline void write_product(const Product& op, const WeightView& weight, int64_t row,
                                     int64_t column) {
    const auto* weights = reinterpret_cast<const float*>(weight.data) + column;
    float sum = 0.0f;
    for (int64_t k = 0; k < weight.in_features; ++k) {
        sum = fmaf(load(op.input.data, op.input.format, row * op.input.stride + k),
                   weights[k * weight.out_features], sum);
    }
    op.out[row * op.out_stride + column] = op.bias ? sum + op.bias[column] : sum;
}

}  // namespace outrider::cuda
