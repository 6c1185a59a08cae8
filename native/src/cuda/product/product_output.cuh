// The last step of a product on tensor cores: scaling an output's sum and adding its bias.
#pragma once

#include <cstdint>

#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/weights/weight_view.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

/// Scales the sum of an existing output, and adds the bias.
template <typename Tile>
__device__ float finished_output(const Product& op, const WeightView& weight, int64_t feature, float total) {
    if constexpr (Tile::kLargest > 0.0f) {
        total *= weight.scales[feature];
    }
    return op.bias ? total + op.bias[feature] : total;
}

/// Prefetches the scale and the bias of an output, if the output exists.
template <typename Tile>
__device__ void prefetch_ending(const Product& op, const WeightView& weight, int64_t feature) {
    if (feature < weight.out_features) {
        if constexpr (Tile::kLargest > 0.0f) {
            prefetch(weight.scales + feature);
        }
        if (op.bias) {
            prefetch(op.bias + feature);
        }
    }
}

}  // namespace outrider::cuda
