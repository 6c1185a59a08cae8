// The memory layouts of a group's numbers, and the exact sums of their products with bytes.
//
// A word is four bytes of a column. Each layout defines
//   kZero                     offset added to a number to store it unsigned
//   kParts                    quadruples of inputs per word, which are multiplied one after the other
//   byte_of(numbers)          the byte of a number; further parts hold the numbers 4 and more places later
//   part(words, index)        the numbers of one part, a byte each
//   Sum                       like GroupSum (int4_dot.h)
#pragma once

#include "cpu/product/int4_dot.h"
#include "cpu/product/int8_dot.h"
#include "cpu/vec/byte_sum.h"
#include "cpu/vec/vec.h"
#include "outrider/device/format.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// One number per byte.
template <typename SumType, int kAdded>
struct ByteNumbers {
    static constexpr int kZero = kAdded;
    static constexpr int kParts = 1;
    using Sum = SumType;

    OUTRIDER_INLINE static ByteVec part(ByteVec words, int) { return words; }
    static char byte_of(const int8_t* numbers) { return static_cast<char>(numbers[0] + kZero); }
    static int load(char byte, int) { return static_cast<int8_t>(byte - kZero); }
};

/// Two numbers per byte; the lower half belongs to the first part.
template <int kLeast>
struct HalfByteNumbers {
    static constexpr int kZero = -kLeast;
    static constexpr int kParts = 2;
    using Sum = GroupSum;

    OUTRIDER_INLINE static ByteVec part(ByteVec words, int index) { return halves(words, index); }
    static char byte_of(const int8_t* numbers) {
        return static_cast<char>((numbers[0] + kZero) | (numbers[4] + kZero) << 4);
    }
    static int load(char byte, int index) { return (byte >> 4 * index & 15) - kZero; }
};

/// Whether the sums of a group's products fit into GroupSum's two 16-bit sums.
template <WeightKind kKind>
constexpr bool kIsSmall = [] {
    constexpr auto kRange = stored_range(kKind);
    constexpr int kLargest = -kRange.least > kRange.most ? -kRange.least : kRange.most;
    return kKind.groups.size / 2 * kLargest * 127 <= 0x7FFF;
}();

template <WeightKind kKind>
struct NumbersOf {
    using Type = ByteNumbers<ByteSum, kInt8Offset>;
};
template <WeightKind kKind>
    requires(kKind.format == WeightFormat::int8 && kIsSmall<kKind>)
struct NumbersOf<kKind> {
    using Type = ByteNumbers<GroupSum, -stored_range(kKind).least>;
};
template <WeightKind kKind>
    requires(kKind.format == WeightFormat::int4)
struct NumbersOf<kKind> {
    static_assert(kIsSmall<kKind>);
    using Type = HalfByteNumbers<stored_range(kKind).least>;
};

}  // namespace outrider::cpu::OUTRIDER_ISA
