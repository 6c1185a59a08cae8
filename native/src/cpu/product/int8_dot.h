// Products of four bytes of K at a time, added up exactly in int32: every instruction set has the same sums.
#pragma once

#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

#if defined(__AVX512VNNI__)
OUTRIDER_INLINE IntVec dot_unsigned(IntVec sum, ByteVec weights, ByteVec values) {
    return (IntVec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)weights, (__m512i)values);
}
#elif !defined(__AVX2__)
OUTRIDER_INLINE IntVec dot_signed(IntVec sum, ByteVec weights, ByteVec values) {
    const IntVec left = bit_cast<IntVec>(weights);
    const IntVec right = bit_cast<IntVec>(values);
    for (int place = 24; place >= 0; place -= 8) {
        sum += ((left << place) >> 24) * ((right << place) >> 24);
    }
    return sum;
}
#endif

/// sum[lane] + the products of the lane's four weights, -128 ... 127, stored with kInt8Offset added, with
/// four values, -127 ... 127, the same in every lane. Each sum holds kInt8Offset times the sum of the values
/// too much.
#if defined(__AVX512VNNI__)
constexpr int kInt8Offset = 128;  // the instruction takes its weights without a sign
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, ByteVec values) {
    return dot_unsigned(sum, weights, values);
}
#elif defined(__AVX2__)
constexpr int kInt8Offset = 0;
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, ByteVec values) {
    // With the weights' signs given to the values, no pair of products is above 2 * 128 * 127: none
    // saturates.
    const __m256i magnitudes = _mm256_abs_epi8((__m256i)weights);
    const __m256i signed_values = _mm256_sign_epi8((__m256i)values, (__m256i)weights);
    const __m256i pairs = _mm256_maddubs_epi16(magnitudes, signed_values);
    return sum + (IntVec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#else
constexpr int kInt8Offset = 0;
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, ByteVec values) {
    return dot_signed(sum, weights, values);
}
#endif

/// A step of StepSums.
struct Int8Dot {
    using Sum = IntVec;
    using Total = int32_t;
    static constexpr int kParts = 1;

    OUTRIDER_INLINE static ByteVec weights(ByteVec bytes, int) { return bytes; }
    OUTRIDER_INLINE static ByteVec values(int32_t bytes, int) { return bit_cast<ByteVec>(splat(bytes)); }
    OUTRIDER_INLINE static IntVec add(IntVec sum, ByteVec weights, ByteVec values) {
        return dot_int8(sum, weights, values);
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
