// Steps of K for StepSums where weights and inputs are of one floating-point format.
#pragma once

#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// One product in float32.
struct FloatDot {
    using Value = float;
    using Sum = Vec;
    using Total = float;
    static constexpr int kParts = 1;

    OUTRIDER_INLINE static Vec weights(ByteVec bytes, int) { return bit_cast<Vec>(bytes); }
    OUTRIDER_INLINE static Vec values(int32_t bytes, int) { return splat(bit_cast<float>(bytes)); }
    OUTRIDER_INLINE static Vec add(Vec sum, Vec weights, Vec values) {
        return multiply_add(values, weights, sum);
    }
};

#if defined(__AVX512BF16__)
/// Two products in bf16, by an instruction that rounds without regard to MXCSR.
struct PairDot {
    using Value = BFloat16;
    using Sum = Vec;
    using Total = float;
    static constexpr int kParts = 1;

    OUTRIDER_INLINE static ByteVec weights(ByteVec bytes, int) { return bytes; }
    OUTRIDER_INLINE static ByteVec values(int32_t bytes, int) { return bit_cast<ByteVec>(splat(bytes)); }
    OUTRIDER_INLINE static Vec add(Vec sum, ByteVec weights, ByteVec values) {
        return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)values, (__m512bh)weights);
    }
};
#else
/// Two products in bf16, widened on their way into the instruction: the first of a pair is the lower half of
/// a lane.
struct PairDot : FloatDot {
    using Value = BFloat16;
    static constexpr int kParts = 2;

    OUTRIDER_INLINE static Vec widen_half(BitsVec pairs, int part) {
        return bit_cast<Vec>(part == 0 ? pairs << 16 : pairs & 0xFFFF0000);
    }
    OUTRIDER_INLINE static Vec weights(ByteVec bytes, int part) {
        return widen_half(bit_cast<BitsVec>(bytes), part);
    }
    OUTRIDER_INLINE static Vec values(int32_t bytes, int part) {
        return widen_half(bit_cast<BitsVec>(splat(bytes)), part);
    }
};
#endif

}  // namespace outrider::cpu::OUTRIDER_ISA
