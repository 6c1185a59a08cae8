// Vectors with AVX-512, BF16 and VNNI.
#pragma once

#include <immintrin.h>

namespace outrider::cpu::OUTRIDER_ISA {
constexpr int kLanes = 16;
}

#include "cpu/vec/avx512_blocking.h"
#include "cpu/vec/vec_types.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// A full mask for intrinsics whose unmasked form makes the compiler warn about its own header.
constexpr __mmask16 kAllLanes = 0xFFFF;

OUTRIDER_INLINE IntVec lane_indices() {
    return IntVec{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

OUTRIDER_INLINE Vec maximum(Vec a, Vec b) {
    return (Vec)_mm512_maskz_max_ps(kAllLanes, (__m512)a, (__m512)b);
}

OUTRIDER_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
    return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

OUTRIDER_INLINE Vec widen(HalfVec half) {
    return bit_cast<Vec>(bit_cast<BitsVec>(_mm512_maskz_cvtepu16_epi32(kAllLanes, (__m256i)half)) << 16);
}
OUTRIDER_INLINE IntVec widen(SmallVec small) {
    return (IntVec)_mm512_maskz_cvtepi8_epi32(kAllLanes, (__m128i)small);
}
OUTRIDER_INLINE PairVec widen(SmallPairVec small) {
    return __builtin_convertvector(small, PairVec);
}
OUTRIDER_INLINE HalfVec narrow(Vec value) {
    return bit_cast<HalfVec>(_mm512_cvtneps_pbh((__m512)value));
}

OUTRIDER_INLINE Vec from_float16(HalfVec half) {
    return (Vec)_mm512_maskz_cvtph_ps(kAllLanes, (__m256i)half);
}

OUTRIDER_INLINE Vec dot_bf16(Vec sum, ByteVec a, ByteVec b) {
    return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

/// A matrix that moves each bit four places down; a byte shift would take two operations.
OUTRIDER_INLINE ByteVec upper_halves(ByteVec bytes) {
    const __m512i matrix = _mm512_set1_epi64(0x1020408000000000);
    return (ByteVec)_mm512_gf2p8affine_epi64_epi8((__m512i)bytes, matrix, 0);
}

constexpr int kInt8Offset = 128;  // the instruction takes unsigned weights
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, ByteVec values) {
    return (IntVec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)weights, (__m512i)values);
}

}  // namespace outrider::cpu::OUTRIDER_ISA

#include "cpu/vec/byte_sum.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct GroupSum : ByteSum {
    OUTRIDER_INLINE IntVec added(IntVec total, PairVec steps_and_offsets, int32_t upper) const {
        constexpr __mmask32 kUpper = 0xAAAAAAAA;
        const __m512i both = _mm512_mask_mov_epi16((__m512i)sum, kUpper, _mm512_set1_epi32(upper));
        return (IntVec)_mm512_dpwssd_epi32((__m512i)total, both, (__m512i)steps_and_offsets);
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
