// Products of one group's small numbers, and what they add to a sum along K, all exactly in integers: every
// instruction set has the same sums.
//
// A GroupSum is, in each lane, the sum of products of a group's numbers, stored without a sign, and values,
// -127 ... 127. It may be two sums in 16 bits, of the first two and of the last two of each four. With what is
// added to the numbers taken off at the start, they fit all the way: 16 * 15 * 127 at most with four-bit numbers
// in groups of 32, 8 * 32 * 127 with six-bit ones in groups of 16. It is a type of the instruction set's:
//   start_of(first, last)                                      what begins the two sums with these
//   start(value)                                               begins a group
//   add(numbers, values)                                       adds products of four numbers of each lane
//   added(total, steps and offsets, GroupInput::upper)         total + the group's steps * the sum
//                                                              + its offsets * the sum of its values
//   total()                                                    the sum
#pragma once

#include "cpu/vec/vec.h"
#include "outrider/device/format.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// What is added to a number, -8 ... 7, to store it without a sign.
constexpr int kInt4Offset = 8;

/// The sum of one group of a row's values, as GroupSum reads it.
struct GroupInput {
    int32_t start;  // -kInt4Offset times the sum
    int32_t upper;  // the sum in the upper half of a lane

    /// Of the sums of the first two and of the last two of each four values.
    GroupInput(int32_t first, int32_t last)
        : start(GroupSum::start_of(-kInt4Offset * first, -kInt4Offset * last)),
          upper((first + last) * 65536) {}
};

/// The products of a group's sum, GroupSum or another that adds in its way, as a step of StepSums.
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
