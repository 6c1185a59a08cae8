// Products of one group's small numbers, and their contribution to a sum along K. All are exact integers, so
// every instruction set has the same sums.
//
// A GroupSum is, in each lane, the sum of products of a group's numbers, stored unsigned, and values, -127
// ... 127. It may consist of two 16-bit sums, of the first two and of the last two of each four products.
// These start from the negated contribution of the offset that makes the numbers unsigned, so they never
// overflow: they are at most 16 * 15 * 127 with four-bit numbers in groups of 32, and 8 * 32 * 127 with
// six-bit numbers in groups of 16. The type belongs to the instruction set and has
//   start_of(first, last)                                      start value of two sums that begin with these
//   start(value)                                               begins a group
//   add(numbers, values)                                       adds products of four numbers of each lane
//   added(total, steps and offsets, GroupInput::upper)         total + the group's steps * the sum
//                                                              + its offsets * the sum of its values
//   total()                                                    the sum
#pragma once

#include "cpu/vec/vec.h"
#include "outrider/device/format.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// The offset added to a number, -8 ... 7, to store it unsigned.
constexpr int kInt4Offset = 8;

/// The sum of one group of a row's values, in the form that GroupSum reads.
struct GroupInput {
    int32_t start;  // -kInt4Offset times the sum
    int32_t upper;  // the sum in the upper half of a lane

    /// From the sums of the first two and of the last two of each four values.
    GroupInput(int32_t first, int32_t last)
        : start(GroupSum::start_of(-kInt4Offset * first, -kInt4Offset * last)),
          upper((first + last) * 65536) {}
};

/// A step of StepSums that adds products to a GroupSum, or to another type with the same functions.
template <typename GroupSumType>
struct GroupDot {
    using Sum = GroupSumType;
    static constexpr int kParts = 1;
    static constexpr int kProducts = 4;

    OUTRIDER_INLINE static ByteVec weights(ByteVec bytes, int) { return bytes; }
    OUTRIDER_INLINE static ByteVec values(int32_t bytes, int) { return bit_cast<ByteVec>(splat(bytes)); }
    OUTRIDER_INLINE static Sum add(Sum sum, ByteVec weights, ByteVec values) {
        sum.add(weights, values);
        return sum;
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
