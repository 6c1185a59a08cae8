// Products of one group's four-bit numbers, and what they add to a sum along K, all exactly in integers:
// every instruction set has the same sums.
#pragma once

#include "cpu/product/int8_dot.h"
#include "cpu/vec/vec.h"
#include "outrider/device/format.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// What is added to a number, -8 ... 7, to store it without a sign.
constexpr int kInt4Offset = 8;

/// The sum of one group of a row's values, as GroupSum reads it.
struct GroupInput {
    int32_t start;  // -kInt4Offset times the sum
    int32_t upper;  // the sum in the upper half of a lane

    explicit GroupInput(int32_t sum) : start(-kInt4Offset * sum), upper(sum * 65536) {
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
        start &= 0xFFFF;  // the lower of a lane's two sums begins with it
#endif
    }
};

/// In each lane the sum of products of a group's numbers, stored with kInt4Offset added, and values, -127 ...
/// 127: with the offset taken off at the start it fits into 16 bits all the way, 32 * 8 * 127 at most.
struct GroupSum {
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
    __m256i pairs;  // of sums in int16

    OUTRIDER_INLINE void start(const GroupInput& input) { pairs = _mm256_set1_epi32(input.start); }
    OUTRIDER_INLINE void add(ByteVec numbers, ByteVec values) {
        // Nothing saturates; but the compiler would put plain additions into an order that spills registers.
        pairs = _mm256_adds_epi16(pairs, _mm256_maddubs_epi16((__m256i)numbers, (__m256i)values));
    }
    /// total + the group's steps * the sum + its offsets * the sum of its values
    OUTRIDER_INLINE IntVec added(IntVec total, PairVec steps_and_offsets, const GroupInput& input) const {
        const auto both = (__m256i)steps_and_offsets;
        const __m256i steps = _mm256_blend_epi16(both, _mm256_slli_epi32(both, 16), 0xAA);
        return total + (IntVec)_mm256_madd_epi16(pairs, steps) +
               (IntVec)_mm256_madd_epi16(both, _mm256_set1_epi32(input.upper));
    }
#else
    IntVec sum;

    OUTRIDER_INLINE void start(const GroupInput& input) { sum = splat(input.start); }
#if defined(__AVX512VNNI__)
    OUTRIDER_INLINE void add(ByteVec numbers, ByteVec values) { sum = dot_unsigned(sum, numbers, values); }
    OUTRIDER_INLINE IntVec added(IntVec total, PairVec steps_and_offsets, const GroupInput& input) const {
        constexpr __mmask32 kUpper = 0xAAAAAAAA;
        const __m512i both = _mm512_mask_mov_epi16((__m512i)sum, kUpper, _mm512_set1_epi32(input.upper));
        return (IntVec)_mm512_dpwssd_epi32((__m512i)total, both, (__m512i)steps_and_offsets);
    }
#else
    OUTRIDER_INLINE void add(ByteVec numbers, ByteVec values) { sum = dot_signed(sum, numbers, values); }
    OUTRIDER_INLINE IntVec added(IntVec total, PairVec steps_and_offsets, const GroupInput& input) const {
        const IntVec both = bit_cast<IntVec>(steps_and_offsets);
        return total + ((both << 16) >> 16) * sum + (both >> 16) * (input.upper >> 16);
    }
#endif
#endif
};

}  // namespace outrider::cpu::OUTRIDER_ISA
