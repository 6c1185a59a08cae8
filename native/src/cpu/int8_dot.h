// Products of four bytes of K at a time, added up exactly in int32: every instruction set has the same sums.
#pragma once

#include "cpu/vec.h"

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

/// In each lane, the sum of products of weights 0 ... 15 with values -127 ... 127, of which there are at most
/// 32, plus a correction.
struct SmallSum {
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
    __m256i pairs = {};  // in int16, which holds 2 * 8 products of 15 * 127

    OUTRIDER_INLINE void start(int32_t) {}
    OUTRIDER_INLINE void add(ByteVec weights, ByteVec values) {
        // Nothing saturates; but the compiler would put plain additions into an order that spills registers.
        pairs = _mm256_adds_epi16(pairs, _mm256_maddubs_epi16((__m256i)weights, (__m256i)values));
    }
    OUTRIDER_INLINE IntVec total(int32_t correction) const {
        return (IntVec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)) + correction;
    }
#else
    IntVec sum;

    OUTRIDER_INLINE void start(int32_t correction) { sum = splat(correction); }
    OUTRIDER_INLINE void add(ByteVec weights, ByteVec values) {
#if defined(__AVX512VNNI__)
        sum = dot_unsigned(sum, weights, values);
#else
        sum = dot_signed(sum, weights, values);
#endif
    }
    OUTRIDER_INLINE IntVec total(int32_t) const { return sum; }
#endif
};

/// sum[lane] + the products of the lane's four weights, -127 ... 127, stored with kInt8Offset added, with
/// four values, the same in every lane. Each sum holds kInt8Offset times the sum of the values too much.
#if defined(__AVX512VNNI__)
constexpr int kInt8Offset = 128;  // the instruction takes its weights without a sign
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, ByteVec values) {
    return dot_unsigned(sum, weights, values);
}
#elif defined(__AVX2__)
constexpr int kInt8Offset = 0;
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, ByteVec values) {
    // With the weights' signs given to the values, no pair of products is above 2 * 127 * 127: none
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

}  // namespace outrider::cpu::OUTRIDER_ISA
