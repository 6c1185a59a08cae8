// Elementary functions over vectors, with one implementation for every lane and every tail. They do not use
// libm, whose results may differ between machines and between vector and scalar code.
#pragma once

#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// e^x within 2 units in the last place; 0 below -87.3, infinite above 88.7, NaN for NaN.
/// Range reduction and coefficients as in Cephes' expf (S. Moshier).
OUTRIDER_INLINE Vec exponential(Vec x) {
    const Vec lowest = splat(-87.33654f);
    const Vec highest = splat(88.72283f);
    const Vec clamped = choose(x < lowest, lowest, choose(x > highest, highest, x));
    // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits.
    const Vec shifter = splat(12582912.0f);
    const Vec shifted = multiply_add(clamped, splat(1.44269504f), shifter);
    const Vec power = shifted - shifter;
    Vec rest = multiply_add(power, splat(-0.693359375f), clamped);
    rest = multiply_add(power, splat(2.12194440e-4f), rest);
    Vec sum = splat(1.9875691500e-4f);
    sum = multiply_add(sum, rest, splat(1.3981999507e-3f));
    sum = multiply_add(sum, rest, splat(8.3334519073e-3f));
    sum = multiply_add(sum, rest, splat(4.1665795894e-2f));
    sum = multiply_add(sum, rest, splat(1.6666665459e-1f));
    sum = multiply_add(sum, rest, splat(5.0000001201e-1f));
    sum = multiply_add(sum * rest, rest, rest + 1.0f);
    // 2^power in two steps: 2^128, which the largest x needs, is not a float.
    const IntVec exponent = bit_cast<IntVec>(shifted) - bit_cast<IntVec>(shifter);
    const IntVec half = exponent >> 1;
    const Vec first = bit_cast<Vec>((half + 127) << 23);
    const Vec second = bit_cast<Vec>((exponent - half + 127) << 23);
    const Vec result = sum * first * second;
    return choose(x < lowest, Vec{}, choose(x > highest, splat(__builtin_inff()), result));
}

/// tanh x within 3 units in the last place. Polynomial as in Cephes' tanhf (S. Moshier).
OUTRIDER_INLINE Vec hyperbolic_tangent(Vec x) {
    const Vec magnitude = choose(x < 0.0f, -x, x);
    const Vec square = x * x;
    Vec sum = splat(-5.70498872745e-3f);
    sum = multiply_add(sum, square, splat(2.06390887954e-2f));
    sum = multiply_add(sum, square, splat(-5.37397155531e-2f));
    sum = multiply_add(sum, square, splat(1.33314422036e-1f));
    sum = multiply_add(sum, square, splat(-3.33332819422e-1f));
    const Vec near_zero = multiply_add(sum * square, x, x);
    const Vec saturating = 1.0f - 2.0f / (exponential(magnitude + magnitude) + 1.0f);
    return choose(magnitude < 0.625f, near_zero, choose(x < 0.0f, -saturating, saturating));
}

/// x / (1 + e^-x)
OUTRIDER_INLINE Vec silu(Vec x) {
    return x / (1.0f + exponential(-x));
}

/// The tanh form of GELU (Hendrycks, Gimpel, arXiv 1606.08415), with 0.5 * (1 + tanh y) = 1 / (1 + e^-2y),
/// which does not cancel for negative x.
OUTRIDER_INLINE Vec gelu_tanh(Vec x) {
    const Vec cubic = multiply_add(x * x * x, splat(0.044715f), x);
    return x / (1.0f + exponential(cubic * -1.5957691216f));  // 2 * sqrt(2 / pi)
}

/// The product x * Phi(x), by the complementary error function of Press et al. (Numerical Recipes in C,
/// section 6.2), whose relative error is 1.2e-7.
OUTRIDER_INLINE Vec gelu(Vec x) {
    const Vec distance = choose(x < 0.0f, -x, x) * 0.70710678f;  // 1 / sqrt(2)
    const Vec t = 1.0f / multiply_add(distance, splat(0.5f), splat(1.0f));
    Vec sum = splat(0.17087277f);
    sum = multiply_add(sum, t, splat(-0.82215223f));
    sum = multiply_add(sum, t, splat(1.48851587f));
    sum = multiply_add(sum, t, splat(-1.13520398f));
    sum = multiply_add(sum, t, splat(0.27886807f));
    sum = multiply_add(sum, t, splat(-0.18628806f));
    sum = multiply_add(sum, t, splat(0.09678418f));
    sum = multiply_add(sum, t, splat(0.37409196f));
    sum = multiply_add(sum, t, splat(1.00002368f));
    sum = multiply_add(sum, t, splat(-1.26551223f));
    const Vec tail = t * 0.5f * exponential(multiply_add(-distance, distance, sum));
    return x * choose(x < 0.0f, tail, 1.0f - tail);
}

/// GPT-OSS's activation: SiLU of the clamped gate with a steeper sigmoid, times one plus the clamped `up`.
OUTRIDER_INLINE Vec clamped_swiglu(Vec gate, Vec up) {
    const Vec limit = splat(7.0f);
    const Vec below = choose(gate > limit, limit, gate);
    const Vec within = choose(up > limit, limit, choose(up < -limit, -limit, up));
    return below / (1.0f + exponential(below * -1.702f)) * (within + 1.0f);
}

/// cap * tanh(x / cap)
OUTRIDER_INLINE Vec soft_capped(Vec x, float cap) {
    return hyperbolic_tangent(x / cap) * cap;
}

struct SineCosine {
    double sine;
    double cosine;
};

/// Accurate to 1e-15 for angles below a million, far beyond the float32 that the result is rounded to.
/// Reduction by pi/2 in two parts and polynomials as in fdlibm (Sun Microsystems).
OUTRIDER_INLINE SineCosine sine_cosine(double angle) {
    const double shifter = 6755399441055744.0;  // 1.5 * 2^52 rounds to the nearest integer
    const double shifted = angle * 0.63661977236758134308 + shifter;
    const double quarters = shifted - shifter;
    const int64_t quadrant = bit_cast<int64_t>(shifted) & 3;
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
    switch (quadrant) {
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

}  // namespace outrider::cpu::OUTRIDER_ISA
