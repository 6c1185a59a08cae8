// How the numbers of a group lie in memory, and the sums of their products with bytes, which are exact.
//
// Four bytes of a column are a word. Each way to hold them says
//   kZero                     what is added to a number to store it without a sign
//   kParts                    inputs of a word by four, which are multiplied one after the other
//   byte_of(numbers)          the byte of a number; further parts hold the numbers 4 and more places later
//   part(words, index)        the numbers of one part, a byte each
//   Sum                       as GroupSum (int4_dot.h)
#pragma once

#include "cpu/product/int4_dot.h"
#include "cpu/product/int8_dot.h"
#include "cpu/vec/byte_sum.h"
#include "cpu/vec/vec.h"
#include "outrider/device/format.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// A number in each byte.
template <typename SumType, int kAdded>
struct ByteNumbers {
    static constexpr int kZero = kAdded;
    static constexpr int kParts = 1;
    using Sum = SumType;

    OUTRIDER_INLINE static ByteVec part(ByteVec words, int) { return words; }
    static char byte_of(const int8_t* numbers) { return static_cast<char>(numbers[0] + kZero); }
    static int load(char byte, int) { return static_cast<int8_t>(byte - kZero); }
};

/// Two in each byte: the lower half belongs to the first part.
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

/// Whether the products of a group fit into a GroupSum's two sums.
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
