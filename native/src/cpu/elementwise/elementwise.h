// Element-wise operations.
#pragma once

#include "cpu/elementwise/normalise.h"
#include "cpu/vec/elementary.h"
#include "cpu/vec/vec.h"
#include "outrider/device/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

OUTRIDER_INLINE Vec activated(Activation activation, Vec value) {
    switch (activation) {
        case Activation::silu:
            return silu(value);
        case Activation::gelu:
            return gelu(value);
        default:
            return gelu_tanh(value);
    }
}

OUTRIDER_INLINE Vec gated(Activation activation, Vec gate, Vec up) {
    return activation == Activation::clamped_swiglu ? clamped_swiglu(gate, up)
                                                    : activated(activation, gate) * up;
}

/// Without a gate, `up` is null and `values` are activated; otherwise `values` are the gates.
template <typename T>
inline void activate_columns(const Activate& op, const float* values, const float* up, T* out, int64_t first,
                             int64_t end) {
    for (int64_t column = first; column < end; column += kLanes) {
        const int64_t count = end - column;
        const Vec value = load_first(values + column, count);
        store_first(out + column,
                    up ? gated(op.activation, value, load_first(up + column, count))
                       : activated(op.activation, value),
                    count);
    }
}

inline void activate(const Activate& op, int64_t row, int64_t first, int64_t end) {
    const float* values = op.gate_up + row * (op.is_gated && !op.ups ? 2 : 1) * op.width;
    const float* up = op.ups ? op.ups + row * op.ups_stride : op.is_gated ? values + op.width : nullptr;
    const int64_t at = row * op.out.stride;
    if (op.out.format == Format::bf16) {
        activate_columns(op, values, up, static_cast<BFloat16*>(op.out.data) + at, first, end);
    } else {
        activate_columns(op, values, up, static_cast<float*>(op.out.data) + at, first, end);
    }
}

/// `index` counts the layers of all rows.
inline void layer_input(const LayerInput& op, int64_t index) {
    const float* projected = op.projected + index * op.width;
    float* inputs = op.inputs + index * op.width;
    const float factor = inverse_rms(projected, op.width, op.eps);
    for (int64_t column = 0; column < op.width; column += kLanes) {
        const int64_t count = op.width - column;
        const Vec normed =
            load_first(projected + column, count) * factor * load_first(op.norm + column, count);
        store_first(inputs + column, (load_first(inputs + column, count) + normed) * op.scale, count);
    }
}

inline void soft_cap(const SoftCap& op, int64_t first, int64_t end) {
    for (int64_t at = first; at < end; at += kLanes) {
        const int64_t count = end - at;
        store_first(op.values + at, soft_capped(load_first(op.values + at, count), op.cap), count);
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
