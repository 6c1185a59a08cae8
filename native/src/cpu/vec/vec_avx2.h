// Vectors with AVX2 and FMA.
#pragma once

#include <immintrin.h>

namespace outrider::cpu::OUTRIDER_ISA {
constexpr int kLanes = 8;
}

#include "cpu/vec/vec_types.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct RegisterBlocking {
    static constexpr int kVectors = 2;
    static constexpr int kRows = 4;               // 8 of 16 registers hold sums
    static constexpr int kInt4Rows = 4;           // 8 of 16 registers hold a group's sums
    static constexpr int kInt4Words = 4;          // more than the compiler unrolls by itself
    static constexpr int kUnpackedRows = kNever;  // sums of groups take fewer instructions than sums of bytes
    static constexpr int kQueries = 4;            // with two vectors each, 8 of 16 registers hold sums
    static constexpr int64_t kSteps = 128;
    static constexpr int64_t kPassRows = 32;
};

OUTRIDER_INLINE IntVec lane_indices() {
    return IntVec{0, 1, 2, 3, 4, 5, 6, 7};
}

OUTRIDER_INLINE Vec maximum(Vec a, Vec b) {
    return (Vec)_mm256_max_ps((__m256)a, (__m256)b);
}

OUTRIDER_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
    return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

OUTRIDER_INLINE Vec widen(HalfVec half) {
    return bit_cast<Vec>(bit_cast<BitsVec>(_mm256_cvtepu16_epi32((__m128i)half)) << 16);
}
OUTRIDER_INLINE IntVec widen(SmallVec small) {
    return (IntVec)_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(bit_cast<int64_t>(small)));
}
OUTRIDER_INLINE PairVec widen(SmallPairVec small) {
    return (PairVec)_mm256_cvtepi8_epi16((__m128i)small);
}
OUTRIDER_INLINE HalfVec narrow(Vec value) {
    return rounded_to_bf16(value);
}

OUTRIDER_INLINE Vec from_float16(HalfVec half) {
    return (Vec)_mm256_cvtph_ps((__m128i)half);
}

OUTRIDER_INLINE ByteVec upper_halves(ByteVec bytes) {
    return bytes >> 4;
}

constexpr int kInt8Offset = 0;
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, ByteVec values) {
    // The signs of the weights are moved to the values, so no pair of products exceeds 2 * 128 * 127, and
    // none saturates.
    const __m256i magnitudes = _mm256_abs_epi8((__m256i)weights);
    const __m256i signed_values = _mm256_sign_epi8((__m256i)values, (__m256i)weights);
    const __m256i pairs = _mm256_maddubs_epi16(magnitudes, signed_values);
    return sum + (IntVec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

struct GroupSum {
    __m256i pairs;  // pairs of int16 sums

    OUTRIDER_INLINE static int32_t start_of(int32_t first, int32_t last) {
        return (first & 0xFFFF) | last * 65536;
    }
    OUTRIDER_INLINE void start(int32_t value) { pairs = _mm256_set1_epi32(value); }
    OUTRIDER_INLINE void add(ByteVec numbers, ByteVec values) {
        __m256i sum = _mm256_add_epi16(pairs, _mm256_maddubs_epi16((__m256i)numbers, (__m256i)values));
        asm("" : "+x"(sum));  // else the compiler would order the additions so that registers spill
        pairs = sum;
    }
    OUTRIDER_INLINE IntVec total() const { return (IntVec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }
    OUTRIDER_INLINE IntVec added(IntVec total, PairVec steps_and_offsets, int32_t upper) const {
        const auto both = (__m256i)steps_and_offsets;
        const __m256i steps = _mm256_blend_epi16(both, _mm256_slli_epi32(both, 16), 0xAA);
        return total + (IntVec)_mm256_madd_epi16(pairs, steps) +
               (IntVec)_mm256_madd_epi16(both, _mm256_set1_epi32(upper));
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
