// Products of four bytes of K at a time, added up exactly in int32: every instruction set has the same sums.
#pragma once

#include "cpu/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// sum[lane] + the products of the lane's four weights, 0 ... 15, with four values, -127 ... 127.
OUTRIDER_INLINE IntVec dot_small(IntVec sum, ByteVec weights, int32_t values) {
#if defined(__AVX512VNNI__)
    return (IntVec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)weights, _mm512_set1_epi32(values));
#elif defined(__AVX2__)
    const __m256i pairs =
        _mm256_maddubs_epi16((__m256i)weights, _mm256_set1_epi32(values));  // never saturates
    return sum + (IntVec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
    const IntVec lanes = bit_cast<IntVec>(weights);
    for (int place = 24; place >= 0; place -= 8) {
        sum += ((lanes << place) >> 24) * ((values << place) >> 24);
    }
    return sum;
#endif
}

/// The same for weights -127 ... 127, stored with kInt8Offset added. Each sum holds kInt8Offset times the sum
/// of the values too much.
#if defined(__AVX512VNNI__)
constexpr int kInt8Offset = 128;  // the instruction takes its weights without a sign
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, int32_t values) {
    return dot_small(sum, weights, values);
}
#elif defined(__AVX2__)
constexpr int kInt8Offset = 0;
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, int32_t values) {
    // With the weights' signs given to the values, no pair of products is above 2 * 127 * 127: none
    // saturates.
    const __m256i magnitudes = _mm256_abs_epi8((__m256i)weights);
    const __m256i signed_values = _mm256_sign_epi8(_mm256_set1_epi32(values), (__m256i)weights);
    const __m256i pairs = _mm256_maddubs_epi16(magnitudes, signed_values);
    return sum + (IntVec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#else
constexpr int kInt8Offset = 0;
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, int32_t values) {
    return dot_small(sum, weights, values);
}
#endif

}  // namespace outrider::cpu::OUTRIDER_ISA
