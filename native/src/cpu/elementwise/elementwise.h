// Operations whose outputs depend on single elements.
#pragma once

#include "cpu/vec/elementary.h"
#include "cpu/vec/vec.h"
#include "outrider/device/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

template <typename T>
inline void gate_columns(const GatedActivation& op, const float* gate, T* out, int64_t first, int64_t end) {
    const float* up = gate + op.width;
    for (int64_t column = first; column < end; column += kLanes) {
        const int64_t count = end - column;
        const Vec value = load_first(gate + column, count);
        const Vec activated = op.activation == Activation::silu ? silu(value) : gelu_tanh(value);
        store_first(out + column, activated * load_first(up + column, count), count);
    }
}

inline void gated_activation(const GatedActivation& op, int64_t row, int64_t first, int64_t end) {
    const float* gate = op.gate_up + row * 2 * op.width;
    const int64_t at = row * op.out.stride;
    if (op.out.format == Format::bf16) {
        gate_columns(op, gate, static_cast<BFloat16*>(op.out.data) + at, first, end);
    } else {
        gate_columns(op, gate, static_cast<float*>(op.out.data) + at, first, end);
    }
}

inline void soft_cap(const SoftCap& op, int64_t first, int64_t end) {
    for (int64_t at = first; at < end; at += kLanes) {
        const int64_t count = end - at;
        store_first(op.values + at, soft_capped(load_first(op.values + at, count), op.cap), count);
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
