// The bf16 matrix product of an instruction set without bf16 products.
#pragma once

#include "cpu/product/float_dot.h"
#include "cpu/product/step_product.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Two float32 products of widened numbers: the first of a pair is the lower half of a lane.
struct WidenedDot : FloatDot {
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

using Bf16Product = StepProduct<WidenedDot>;

}  // namespace outrider::cpu::OUTRIDER_ISA
