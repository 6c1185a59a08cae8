// Vectors of 128 bits, which every vector unit has, without a word of any instruction set.
#pragma once

namespace outrider::cpu::OUTRIDER_ISA {
constexpr int kLanes = 4;
}

#include "cpu/vec/vec_types.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct RegisterBlocking {
    static constexpr int kVectors = 2;
    static constexpr int kRows = 4;       // 8 of 16 registers hold sums
    static constexpr int kInt4Rows = 3;   // 6 of 16 registers hold a group's sums
    static constexpr int kInt4Words = 1;  // more takes more time
    static constexpr int kUnpackedRows = kNever;
    static constexpr int kQueries = 4;  // with two vectors each, 8 of 16 registers hold sums
    static constexpr int64_t kSteps = 128;
    static constexpr int64_t kPassRows = 32;
};

OUTRIDER_INLINE IntVec lane_indices() {
    return IntVec{0, 1, 2, 3};
}

OUTRIDER_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
    return a * b + c;
}

constexpr int kInt8Offset = 0;
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, ByteVec values) {
    const IntVec left = bit_cast<IntVec>(weights);
    const IntVec right = bit_cast<IntVec>(values);
    for (int place = 24; place >= 0; place -= 8) {
        sum += ((left << place) >> 24) * ((right << place) >> 24);
    }
    return sum;
}

}  // namespace outrider::cpu::OUTRIDER_ISA

#include "cpu/vec/plain_vectors.h"
