// write_output: the end of every product on tensor cores.
#pragma once

#include <cstdint>

#include "cuda/primitives/launch.cuh"
#include "cuda/weights/weight_view.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

/// Scales one output's sum, adds the bias and writes it, if there is such an output.
template <typename Tile>
__device__ void write_output(const Product& op, const WeightView& weight, int64_t row, int64_t feature,
                             float total) {
    if (feature < weight.out_features && row < op.rows) {
        if constexpr (Tile::kLargest > 0.0f) {
            total *= weight.scales[feature];
        }
        op.out[row * op.out_stride + feature] = op.bias ? total + op.bias[feature] : total;
    }
}

}  // namespace outrider::cuda
