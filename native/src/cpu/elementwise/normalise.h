// RMSNorm (Zhang, Sennrich, arXiv 1910.07467), alone and fused with the residual addition before it.
#pragma once

#include "cpu/vec/vec.h"
#include "outrider/device/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// 1 / sqrt(mean(x^2) + eps)
inline float inverse_rms(const float* values, int64_t width, float eps) {
    Vec sums[4] = {};
    for (int64_t column = 0; column < width; column += 4 * kLanes) {
        for (int part = 0; part < 4; ++part) {
            const int64_t at = column + part * kLanes;
            if (at < width) {
                const Vec value = load_first(values + at, width - at);
                sums[part] = multiply_add(value, value, sums[part]);
            }
        }
    }
    const float total = sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
    return 1.0f / __builtin_sqrtf(total / static_cast<float>(width) + eps);
}

/// Element by element: out = (values * factor) * weight; a null weight stands for values as they are.
template <typename T>
inline void write_scaled(const float* values, float factor, const float* weight, T* out, int64_t width) {
    for (int64_t column = 0; column < width; column += kLanes) {
        const int64_t count = width - column;
        Vec value = load_first(values + column, count);
        if (weight) {
            value = value * factor * load_first(weight + column, count);
        }
        store_first(out + column, value, count);
    }
}

inline void add_delta(const ResidualNorm& op, float* residual, const float* delta) {
    const float factor = op.delta_norm ? inverse_rms(delta, op.width, op.eps) : 1.0f;
    for (int64_t column = 0; column < op.width; column += kLanes) {
        const int64_t count = op.width - column;
        Vec value = load_first(delta + column, count);
        if (op.delta_norm) {
            value = value * factor * load_first(op.delta_norm + column, count);
        }
        store_first(residual + column, load_first(residual + column, count) + value, count);
    }
}

inline void residual_norm(const ResidualNorm& op, int64_t row) {
    float* residual = op.residual + row * op.width;
    if (op.delta) {
        add_delta(op, residual, op.delta + row * op.width);
    }
    const float factor = op.norm ? inverse_rms(residual, op.width, op.eps) : 1.0f;
    const int64_t at = row * op.out.stride;
    if (op.out.format == Format::bf16) {
        write_scaled(residual, factor, op.norm, static_cast<BFloat16*>(op.out.data) + at, op.width);
    } else {
        write_scaled(residual, factor, op.norm, static_cast<float*>(op.out.data) + at, op.width);
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
