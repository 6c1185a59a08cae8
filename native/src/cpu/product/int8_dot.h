// Products of four bytes of K at a time, summed exactly in int32: every instruction set has the same sums.
#pragma once

#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// A step of StepSums. Weights, -128 ... 127, are stored with kInt8Offset added; values, -127 ... 127, are
/// the same in every lane. dot_int8(sum, weights, values) adds the products of a lane's four stored weights
/// to its sum, so each sum is too large by kInt8Offset times the sum of the values.
struct Int8Dot {
    using Sum = IntVec;
    using Total = int32_t;
    static constexpr int kParts = 1;
    static constexpr int kProducts = 4;

    OUTRIDER_INLINE static ByteVec weights(ByteVec bytes, int) { return bytes; }
    OUTRIDER_INLINE static ByteVec values(int32_t bytes, int) { return bit_cast<ByteVec>(splat(bytes)); }
    OUTRIDER_INLINE static IntVec add(IntVec sum, ByteVec weights, ByteVec values) {
        return dot_int8(sum, weights, values);
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
