// Vector operations in plain C++, for instruction sets without an instruction for them. Included after
// dot_int8.
#pragma once

#include "cpu/vec/byte_sum.h"
#include "cpu/vec/vec_types.h"

namespace outrider::cpu::OUTRIDER_ISA {

OUTRIDER_INLINE Vec maximum(Vec a, Vec b) {
    return a > b ? a : b;
}

OUTRIDER_INLINE Vec widen(HalfVec half) {
    return bit_cast<Vec>(__builtin_convertvector(half, BitsVec) << 16);
}
OUTRIDER_INLINE IntVec widen(SmallVec small) {
    return __builtin_convertvector(small, IntVec);
}
OUTRIDER_INLINE PairVec widen(SmallPairVec small) {
    return __builtin_convertvector(small, PairVec);
}
OUTRIDER_INLINE HalfVec narrow(Vec value) {
    return rounded_to_bf16(value);
}

/// The bits of a subnormal, taken as a fraction of 2^-14, give a number that is 2^-14 too large; this is
/// subtracted.
OUTRIDER_INLINE Vec from_float16(HalfVec half) {
    const BitsVec bits = __builtin_convertvector(half, BitsVec);
    const BitsVec magnitude = (bits & 0x7FFF) << 13;
    const BitsVec normal =
        magnitude + ((magnitude >> 23) == 31 ? BitsVec{} + (224 << 23) : BitsVec{} + (112 << 23));
    const BitsVec smallest = BitsVec{} + (113 << 23);
    const Vec subnormal = bit_cast<Vec>(magnitude + smallest) - bit_cast<Vec>(smallest);
    const BitsVec value = (magnitude >> 23) == 0 ? bit_cast<BitsVec>(subnormal) : normal;
    return bit_cast<Vec>(value | (bits & 0x8000) << 16);
}

OUTRIDER_INLINE ByteVec upper_halves(ByteVec bytes) {
    return bytes >> 4;
}

}  // namespace outrider::cpu::OUTRIDER_ISA
