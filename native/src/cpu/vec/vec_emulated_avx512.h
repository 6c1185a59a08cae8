// AVX-512's vectors in plain C++, for tests on machines without them (Intel's Software Developer's Manual,
// volume 2). Unlike the bf16 instructions, they do not treat subnormal numbers as zero.
#pragma once

namespace outrider::cpu::OUTRIDER_ISA {
constexpr int kLanes = 16;
}

#include "cpu/vec/avx512_blocking.h"
#include "cpu/vec/vec_types.h"

/// Marks functions that are called, not inlined: with a copy at each use, compiling would take minutes.
#define OUTRIDER_CALLED __attribute__((noinline)) inline

namespace outrider::cpu::OUTRIDER_ISA {

OUTRIDER_INLINE IntVec lane_indices() {
    return IntVec{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

OUTRIDER_CALLED Vec multiply_add(Vec a, Vec b, Vec c) {
    for (int lane = 0; lane < kLanes; ++lane) {
        c[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
    }
    return c;
}

/// Adds the odd products first.
OUTRIDER_CALLED Vec dot_bf16(Vec sum, ByteVec a, ByteVec b) {
    const BitsVec left = bit_cast<BitsVec>(a);
    const BitsVec right = bit_cast<BitsVec>(b);
    const Vec odd = multiply_add(bit_cast<Vec>(left & 0xFFFF0000), bit_cast<Vec>(right & 0xFFFF0000), sum);
    return multiply_add(bit_cast<Vec>(left << 16), bit_cast<Vec>(right << 16), odd);
}

constexpr int kInt8Offset = 128;
OUTRIDER_CALLED IntVec dot_int8(IntVec sum, ByteVec weights, ByteVec values) {
    const IntVec left = bit_cast<IntVec>(weights);
    const IntVec right = bit_cast<IntVec>(values);
    for (int place = 24; place >= 0; place -= 8) {
        sum += (left >> (24 - place) & 255) * ((right << place) >> 24);
    }
    return sum;
}

}  // namespace outrider::cpu::OUTRIDER_ISA

#include "cpu/vec/plain_vectors.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct GroupSum : ByteSum {
    OUTRIDER_INLINE IntVec added(IntVec total, PairVec steps_and_offsets, int32_t upper) const {
        const auto both = bit_cast<IntVec>(steps_and_offsets);
        return total + ((both << 16) >> 16) * sum + (both >> 16) * (upper >> 16);
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
