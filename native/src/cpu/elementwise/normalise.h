// RMSNorm (Zhang, Sennrich, arXiv 1910.07467) and layer norm (Ba, Kiros, Hinton, arXiv 1607.06450), alone and
// fused with the residual addition before them.
#pragma once

#include "cpu/vec/vec.h"
#include "outrider/device/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// The mean of a row, where add(vector, number of values left, sum) accumulates each vector.
template <typename Add>
OUTRIDER_INLINE float mean_over(const float* values, int64_t width, const Add& add) {
    Vec sums[4] = {};
    for (int64_t column = 0; column < width; column += 4 * kLanes) {
        for (int part = 0; part < 4; ++part) {
            const int64_t at = column + part * kLanes;
            if (at < width) {
                sums[part] = add(load_first(values + at, width - at), width - at, sums[part]);
            }
        }
    }
    return sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])) / static_cast<float>(width);
}

/// 1 / sqrt(mean(x^2) + eps)
inline float inverse_rms(const float* values, int64_t width, float eps) {
    const float mean = mean_over(values, width, [](const Vec& value, int64_t, const Vec& sum) {
        return multiply_add(value, value, sum);
    });
    return 1.0f / __builtin_sqrtf(mean + eps);
}

/// The mean that a norm subtracts from a row, and the factor that then multiplies it.
struct Normal {
    float mean = 0.0f;
    float factor = 1.0f;
};

/// Computes the mean, and 1 / sqrt(mean((x - mean)^2) + eps).
inline Normal layer_normal(const float* values, int64_t width, float eps) {
    const float mean =
        mean_over(values, width, [](const Vec& value, int64_t, const Vec& sum) { return sum + value; });
    const float variance = mean_over(values, width, [&](const Vec& value, int64_t count, const Vec& sum) {
        const auto left = static_cast<int32_t>(smaller(count, kLanes));
        const Vec distance = choose(lane_indices() < left, value - mean, Vec{});
        return multiply_add(distance, distance, sum);
    });
    return {mean, 1.0f / __builtin_sqrtf(variance + eps)};
}

inline Normal normal_of(NormKind kind, const float* values, int64_t width, float eps) {
    return kind == NormKind::layer ? layer_normal(values, width, eps)
                                   : Normal{0.0f, inverse_rms(values, width, eps)};
}

/// out = (values - mean) * factor * weight + bias, element by element; with a null weight, out = values +
/// bias.
template <typename T>
inline void write_normal(const float* values, const Normal& normal, const float* weight, const float* bias,
                         T* out, int64_t width) {
    for (int64_t column = 0; column < width; column += kLanes) {
        const int64_t count = width - column;
        Vec value = load_first(values + column, count);
        if (weight) {
            value = (value - normal.mean) * normal.factor * load_first(weight + column, count);
        }
        if (bias) {
            value = value + load_first(bias + column, count);
        }
        store_first(out + column, value, count);
    }
}

inline void add_delta(const ResidualNorm& op, float* residual, const float* delta) {
    const float factor = op.delta_norm ? inverse_rms(delta, op.width, op.eps) : 1.0f;
    const float scale = op.scale ? *op.scale : 1.0f;
    for (int64_t column = 0; column < op.width; column += kLanes) {
        const int64_t count = op.width - column;
        Vec value = load_first(delta + column, count);
        if (op.delta_norm) {
            value = value * factor * load_first(op.delta_norm + column, count);
        }
        const Vec before = op.replaces ? Vec{} : load_first(residual + column, count);
        store_first(residual + column, (before + value) * scale, count);
    }
}

inline void residual_norm(const ResidualNorm& op, int64_t row) {
    float* residual = op.residual + row * op.width;
    if (op.delta) {
        add_delta(op, residual, op.delta + row * op.width);
    }
    const Normal normal = op.norm ? normal_of(op.kind, residual, op.width, op.eps) : Normal{};
    const int64_t at = row * op.out.stride;
    if (op.out.format == Format::bf16) {
        write_normal(residual, normal, op.norm, op.norm_bias, static_cast<BFloat16*>(op.out.data) + at,
                     op.width);
    } else {
        write_normal(residual, normal, op.norm, op.norm_bias, static_cast<float*>(op.out.data) + at,
                     op.width);
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
