// Elementary functions from IEEE operations alone, so that every device gives the same bits. The formulas are
// those of cpu/vec/elementary.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/values/values.cuh"

namespace outrider::cuda {

constexpr float kLowestExponent = -87.33654f;  // below it e^x is taken as 0

/// e^x = mantissa * 2^power
struct ExponentialParts {
    float mantissa;
    int32_t power;  // arbitrary for NaN
};

/// Splits e^x; x must be in the range in which neither part overflows.
__device__ inline ExponentialParts exponential_parts(float x) {
    const float shifter = 12582912.0f;  // adding 1.5 * 2^23 rounds to the nearest integer
    const float shifted = fmaf(x, 1.44269504f, shifter);
    const float power = shifted - shifter;
    float rest = fmaf(power, -0.693359375f, x);
    rest = fmaf(power, 2.12194440e-4f, rest);
    float sum = 1.9875691500e-4f;
    sum = fmaf(sum, rest, 1.3981999507e-3f);
    sum = fmaf(sum, rest, 8.3334519073e-3f);
    sum = fmaf(sum, rest, 4.1665795894e-2f);
    sum = fmaf(sum, rest, 1.6666665459e-1f);
    sum = fmaf(sum, rest, 5.0000001201e-1f);
    sum = fmaf(sum * rest, rest, rest + 1.0f);
    return {sum, static_cast<int32_t>(bit_cast<uint32_t>(shifted) - bit_cast<uint32_t>(shifter))};
}

/// 2^power; the result must be a normal number.
__device__ inline float power_of_two(int32_t power) {
    return bit_cast<float>((static_cast<uint32_t>(power) + 127) << 23);
}

/// e^x within 2 units in the last place; 0 below -87.3, infinite above 88.7, NaN for NaN.
__device__ inline float exponential(float x) {
    const float highest = 88.72283f;
    const float clamped = x < kLowestExponent ? kLowestExponent : (x > highest ? highest : x);
    const ExponentialParts parts = exponential_parts(clamped);
    // 2^power in two steps: 2^128, which the largest x needs, is not a float.
    const int32_t half = parts.power >> 1;
    const float result = parts.mantissa * power_of_two(half) * power_of_two(parts.power - half);
    return x < kLowestExponent ? 0.0f : (x > highest ? bit_cast<float>(0x7F800000u) : result);
}

/// exponential(x), to the bit, for x <= 0 or NaN.
__device__ inline float exponential_below_one(float x) {
    const ExponentialParts parts = exponential_parts(x < kLowestExponent ? kLowestExponent : x);
    return x < kLowestExponent ? 0.0f : parts.mantissa * power_of_two(parts.power);
}

/// tanh x within 3 units in the last place.
__device__ inline float hyperbolic_tangent(float x) {
    const float magnitude = x < 0.0f ? -x : x;
    const float square = x * x;
    float sum = -5.70498872745e-3f;
    sum = fmaf(sum, square, 2.06390887954e-2f);
    sum = fmaf(sum, square, -5.37397155531e-2f);
    sum = fmaf(sum, square, 1.33314422036e-1f);
    sum = fmaf(sum, square, -3.33332819422e-1f);
    const float near_zero = fmaf(sum * square, x, x);
    const float saturating = 1.0f - 2.0f / (exponential(magnitude + magnitude) + 1.0f);
    return magnitude < 0.625f ? near_zero : (x < 0.0f ? -saturating : saturating);
}

/// x / (1 + e^-x)
__device__ inline float silu(float x) {
    return x / (1.0f + exponential(-x));
}

/// The tanh form of GELU.
__device__ inline float gelu_tanh(float x) {
    const float cubic = fmaf(x * x * x, 0.044715f, x);
    return x / (1.0f + exponential(cubic * -1.5957691216f));  // 2 * sqrt(2 / pi)
}

/// x * Phi(x)
__device__ inline float gelu(float x) {
    const float distance = (x < 0.0f ? -x : x) * 0.70710678f;  // 1 / sqrt(2)
    const float t = 1.0f / fmaf(distance, 0.5f, 1.0f);
    float sum = 0.17087277f;
    sum = fmaf(sum, t, -0.82215223f);
    sum = fmaf(sum, t, 1.48851587f);
    sum = fmaf(sum, t, -1.13520398f);
    sum = fmaf(sum, t, 0.27886807f);
    sum = fmaf(sum, t, -0.18628806f);
    sum = fmaf(sum, t, 0.09678418f);
    sum = fmaf(sum, t, 0.37409196f);
    sum = fmaf(sum, t, 1.00002368f);
    sum = fmaf(sum, t, -1.26551223f);
    const float tail = t * 0.5f * exponential(fmaf(-distance, distance, sum));
    return x * (x < 0.0f ? tail : 1.0f - tail);
}

/// GPT-OSS's activation: SiLU of the clamped gate with a steeper sigmoid, times one plus the clamped `up`.
__device__ inline float clamped_swiglu(float gate, float up) {
    const float limit = 7.0f;
    const float below = gate > limit ? limit : gate;
    const float within = up > limit ? limit : (up < -limit ? -limit : up);
    return below / (1.0f + exponential(below * -1.702f)) * (within + 1.0f);
}

/// cap * tanh(x / cap)
__device__ inline float soft_capped(float x, float cap) {
    return hyperbolic_tangent(x / cap) * cap;
}

struct SineCosine {
    double sine;
    double cosine;
};

/// Accurate to 1e-15 for angles below a million.
__device__ inline SineCosine sine_cosine(double angle) {
    const double shifter = 6755399441055744.0;  // 1.5 * 2^52 rounds to the nearest integer
    const double shifted = angle * 0.63661977236758134308 + shifter;
    const double quarters = shifted - shifter;
    const double x = (angle - quarters * 1.57079632673412561417) - quarters * 6.07710050650619224932e-11;
    const double z = x * x;
    double s = 1.58969099521155010221e-10;
    s = s * z - 2.50507602534068634195e-08;
    s = s * z + 2.75573137070700676789e-06;
    s = s * z - 1.98412698298579493134e-04;
    s = s * z + 8.33333333332248946124e-03;
    s = s * z - 1.66666666666666324348e-01;
    s = x + x * z * s;
    double c = -1.13596475577881948265e-11;
    c = c * z + 2.08757232129817482790e-09;
    c = c * z - 2.75573143513906633035e-07;
    c = c * z + 2.48015872894767294178e-05;
    c = c * z - 1.38888888888741095749e-03;
    c = c * z + 4.16666666666666019037e-02;
    c = 1.0 - 0.5 * z + z * z * c;
    switch (bit_cast<uint64_t>(shifted) & 3) {
        case 0:
            return {s, c};
        case 1:
            return {c, -s};
        case 2:
            return {-s, -c};
        default:
            return {-c, s};
    }
}

}  // namespace outrider::cuda
