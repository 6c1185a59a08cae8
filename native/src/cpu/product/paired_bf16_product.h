// The bf16 matrix product with AVX-512 BF16.
#pragma once

#include "cpu/product/step_product.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Two products by one instruction, whose rounding ignores MXCSR.
struct PairDot {
    using Value = BFloat16;
    using Sum = Vec;
    using Total = float;
    static constexpr int kParts = 1;
    static constexpr int kProducts = 2;

    OUTRIDER_INLINE static ByteVec weights(ByteVec bytes, int) { return bytes; }
    OUTRIDER_INLINE static ByteVec values(int32_t bytes, int) { return bit_cast<ByteVec>(splat(bytes)); }
    OUTRIDER_INLINE static Vec add(Vec sum, ByteVec weights, ByteVec values) {
        return dot_bf16(sum, values, weights);
    }
};

using Bf16Product = StepProduct<PairDot>;

}  // namespace outrider::cpu::OUTRIDER_ISA
