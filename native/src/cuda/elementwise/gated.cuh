// gated: an MLP's activation of a gate, times its `up` value.
#pragma once

#include "cuda/values/elementary.cuh"
#include "outrider/device/operations.h"

namespace outrider::cuda {

/// Without gates, `up` must be 1, which changes no bit.
__device__ inline float gated(const Activate& op, float value, float up) {
    switch (op.activation) {
        case Activation::silu:
            return silu(value) * up;
        case Activation::gelu:
            return gelu(value) * up;
        case Activation::gelu_tanh:
            return gelu_tanh(value) * up;
        default:
            return clamped_swiglu(value, up);
    }
}

}  // namespace outrider::cuda
