// FloatDot: the step of StepSums with float32 weights and inputs.
#pragma once

#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// One step is one product.
struct FloatDot {
    using Value = float;
    using Sum = Vec;
    using Total = float;
    static constexpr int kParts = 1;
    static constexpr int kProducts = 1;

    OUTRIDER_INLINE static Vec weights(ByteVec bytes, int) { return bit_cast<Vec>(bytes); }
    OUTRIDER_INLINE static Vec values(int32_t bytes, int) { return splat(bit_cast<float>(bytes)); }
    OUTRIDER_INLINE static Vec add(Vec sum, Vec weights, Vec values) {
        return multiply_add(values, weights, sum);
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
