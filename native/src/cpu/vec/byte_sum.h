// ByteSum: an exact sum of byte products in each lane. Included after the instruction set's dot_int8.
#pragma once

#include "cpu/vec/vec_types.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct ByteSum {
    IntVec sum;

    OUTRIDER_INLINE static int32_t start_of(int32_t first, int32_t last) { return first + last; }
    OUTRIDER_INLINE void start(int32_t value) { sum = splat(value); }
    OUTRIDER_INLINE void add(ByteVec numbers, ByteVec values) { sum = dot_int8(sum, numbers, values); }
    OUTRIDER_INLINE IntVec total() const { return sum; }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
