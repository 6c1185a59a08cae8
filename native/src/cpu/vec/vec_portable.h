// Vectors of 128 bits, which every vector unit has, without intrinsics of any instruction set.
#pragma once

namespace outrider::cpu::OUTRIDER_ISA {
constexpr int kLanes = 4;
}

#include "cpu/vec/vec_types.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct RegisterBlocking {
    static constexpr int kVectors = 2;
    static constexpr int kRows = 4;  // 8 of 16 registers hold sums
    static constexpr int kInt4Rows = 4;
    static constexpr int kInt4Words = 1;  // more is slower
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

/// The sum of the products of every two neighbouring bytes, in 16 bits.
OUTRIDER_INLINE PairVec pair_products(ByteVec weights, ByteVec values) {
    const auto left = bit_cast<PairVec>(weights);
    const auto right = bit_cast<PairVec>(values);
    return ((left << 8) >> 8) * ((right << 8) >> 8) + (left >> 8) * (right >> 8);
}
OUTRIDER_INLINE IntVec sum_pairs(IntVec lanes) {
    return ((lanes << 16) >> 16) + (lanes >> 16);
}

constexpr int kInt8Offset = 0;
OUTRIDER_INLINE IntVec dot_int8(IntVec sum, ByteVec weights, ByteVec values) {
    const PairVec pairs = pair_products(weights, values);  // 2 * 128 * 127 at most
    return sum + sum_pairs(bit_cast<IntVec>(pairs));
}

struct GroupSum {
    /// Unsigned, since the endless sums of multiply_registers wrap around.
    typedef uint16_t Pairs __attribute__((vector_size(4 * kLanes)));
    Pairs pairs;

    OUTRIDER_INLINE static int32_t start_of(int32_t first, int32_t last) {
        return (first & 0xFFFF) | last * 65536;
    }
    OUTRIDER_INLINE void start(int32_t value) { pairs = bit_cast<Pairs>(splat(value)); }
    OUTRIDER_INLINE void add(ByteVec numbers, ByteVec values) {
        pairs += bit_cast<Pairs>(pair_products(numbers, values));
    }
    OUTRIDER_INLINE IntVec total() const { return sum_pairs(bit_cast<IntVec>(pairs)); }
    /// Computed in float32, whose products are faster than 32-bit integer ones; exact, as all numbers are
    /// below 2^24.
    OUTRIDER_INLINE IntVec added(IntVec total, PairVec steps_and_offsets, int32_t upper) const {
        const auto both = bit_cast<IntVec>(steps_and_offsets);
        const auto steps = __builtin_convertvector((both << 16) >> 16, Vec);
        const auto offsets = __builtin_convertvector(both >> 16, Vec);
        const Vec sum = __builtin_convertvector(sum_pairs(bit_cast<IntVec>(pairs)), Vec);
        return total +
               __builtin_convertvector(sum * steps + offsets * static_cast<float>(upper >> 16), IntVec);
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA

#include "cpu/vec/plain_vectors.h"
