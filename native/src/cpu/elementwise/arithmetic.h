// Multiplies numbers in registers without memory access: the peak speed that matrix products are compared
// with.
#pragma once

#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Adds products as StepSums does with `Dot`, always of the same numbers; returns the number of operations,
/// two for each product.
template <typename Dot>
inline int64_t multiply_registers(int64_t rounds) {
    constexpr int kRows = RegisterBlocking::kRows;
    constexpr int kVectors = RegisterBlocking::kVectors;
    typename Dot::Sum sums[kRows][kVectors];
    BitsVec weights[kVectors];
    int32_t values[kRows];
    // The compiler must not know that the numbers are equal, or it would compute only one of the sums.
    const auto hide = [](auto& number) { asm volatile("" : "+m"(number)); };
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
        values[row] = 0x3F803F80;  // ordinary values in every format
#pragma GCC unroll 4
        for (int vector = 0; vector < kVectors; ++vector) {
            typename Dot::Sum nothing{};
            hide(nothing);
            sums[row][vector] = nothing;
            weights[vector] = BitsVec{} + 0x3F803F80U;
            hide(weights[vector]);
        }
    }
    for (int64_t round = 0; round < rounds; ++round) {
        for (int part = 0; part < Dot::kParts; ++part) {
#pragma GCC unroll 6
            for (int row = 0; row < kRows; ++row) {
                hide(values[row]);
                const auto value = Dot::values(values[row], part);
#pragma GCC unroll 4
                for (int vector = 0; vector < kVectors; ++vector) {
                    const auto weight = Dot::weights(bit_cast<ByteVec>(weights[vector]), part);
                    sums[row][vector] = Dot::add(sums[row][vector], weight, value);
                }
            }
        }
    }
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
        for (int vector = 0; vector < kVectors; ++vector) {
            typename Dot::Sum sum = sums[row][vector];
            hide(sum);
        }
    }
    return rounds * Dot::kParts * kRows * kVectors * kLanes * Dot::kProducts * 2;
}

}  // namespace outrider::cpu::OUTRIDER_ISA
