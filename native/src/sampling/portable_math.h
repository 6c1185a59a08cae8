// log and exp in double precision with the same bits on every machine, for one number or for eight at once.
//
// The C library's functions may differ between machines, versions and vector widths; these use nothing but
// IEEE additions, multiplications, divisions and integer arithmetic, in one order. The errors seen are below
// 0.9 ulp (log) and 1.2 ulp (exp). The build must not contract a * b + c into a fused operation
// (-ffp-contract=off).
#pragma once

#include <cstdint>
#include <cstring>

#include "outrider/device/host_device.h"

namespace outrider {

/// Eight numbers side by side, in the registers of the machine.
constexpr int kLanes = 8;
typedef double Doubles __attribute__((vector_size(kLanes * sizeof(double))));
typedef uint64_t DoubleBits __attribute__((vector_size(kLanes * sizeof(uint64_t))));
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
typedef uint32_t Words __attribute__((vector_size(kLanes * sizeof(uint32_t))));

template <typename To, typename From>
OUTRIDER_HOST_DEVICE inline To bit_cast(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

/// The unsigned integers that hold the bits of a number, or of eight.
template <typename Number>
struct BitsOf;
template <>
struct BitsOf<double> {
    using Type = uint64_t;
};
template <>
struct BitsOf<Doubles> {
    using Type = DoubleBits;
};

// ln 2 in two parts; the high one has 21 trailing zero bits, so its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLn2 = kLn2High + kLn2Low;

/// The natural logarithm of a positive, normal, finite x. Number: double or Doubles.
///
/// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); with s = f / (2 + f), log(1 + f) = 2 atanh(s)
/// = f - (f^2/2 - s (f^2/2 + r)), where r = 2 (s^2/3 + s^4/5 + ...): f, exact, carries the leading bits.
template <typename Number>
OUTRIDER_HOST_DEVICE inline Number portable_log(Number x) {
    using Bits = typename BitsOf<Number>::Type;
    constexpr uint64_t kOne = 0x3FF0000000000000;
    constexpr uint64_t kSqrtHalf = 0x3FE6A09E667F3BCD;
    constexpr uint64_t kTwo52 = 0x4330000000000000;
    const Bits bits = bit_cast<Bits>(x);
    const Bits biased = (bits + (kOne - kSqrtHalf)) >> 52;  // k + 1023
    const Number f = bit_cast<Number>(bits + kOne - (biased << 52)) - 1.0;
    const Number s = f / (2.0 + f);
    const Number z = s * s;
    Number r = z * (2.0 / 25) + 2.0 / 23;
    r = r * z + 2.0 / 21;
    r = r * z + 2.0 / 19;
    r = r * z + 2.0 / 17;
    r = r * z + 2.0 / 15;
    r = r * z + 2.0 / 13;
    r = r * z + 2.0 / 11;
    r = r * z + 2.0 / 9;
    r = r * z + 2.0 / 7;
    r = r * z + 2.0 / 5;
    r = r * z + 2.0 / 3;
    r = r * z;
    const Number half_square = 0.5 * f * f;
    // The bits of 2^52 + n are those of 2^52 with n in the lowest bits: an exact conversion with any
    // registers.
    const Number k = bit_cast<Number>(biased | kTwo52) - (0x1p52 + 1023.0);
    return k * kLn2High - ((half_square - (s * (half_square + r) + k * kLn2Low)) - f);
}

/// e^x for x <= 0, and 0 below -708 (also for minus infinity), where it is less than 1e-307.
/// Number: double or Doubles.
///
/// x = n log 2 + r with |r| <= log(2)/2; e^r by its Taylor polynomial of degree 13.
template <typename Number>
OUTRIDER_HOST_DEVICE inline Number portable_exp(Number x) {
    using Bits = typename BitsOf<Number>::Type;
    constexpr double kLog2E = 0x1.71547652b82fep0;
    constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
    const Number shifted = x * kLog2E + kRound;
    const Number n = shifted - kRound;
    const Number r = (x - n * kLn2High) - n * kLn2Low;
    Number p = r * (1.0 / 6227020800) + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const Number scaled = p * bit_cast<Number>((bit_cast<Bits>(shifted) + 1023) << 52);
    return x < -708.0 ? Number{} : scaled;
}

}  // namespace outrider
