// The end of a product on tensor cores: what is made of an output's sum.
#pragma once

#include <cstdint>

#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/weights/weight_view.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

/// Scales the sum of an output, which is there, and adds the bias.
template <typename Tile>
__device__ float finished_output(const Product& op, const WeightView& weight, int64_t feature, float total) {
    if constexpr (Tile::kLargest > 0.0f) {
        total *= weight.scales[feature];
    }
    return op.bias ? total + op.bias[feature] : total;
}

/// Brings the scales and biases of a tile's outputs nearer, if there are such outputs.
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
