// Int4Layout: the layout of a micro-panel of four-bit weights.
#pragma once

#include "cpu/vec/vec.h"
#include "outrider/device/format.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// For each group: [4][output feature][4 bytes] numbers and [output feature][2] bytes. The low half of byte j
/// of word i is the number k = 8 i + j of the group, the high half k = 8 i + 4 + j; the last two bytes are
/// the group's step and offset.
struct Int4Layout {
    static constexpr int kVectors = RegisterBlocking::kVectors;
    static constexpr int kColumns = kVectors * kLanes;
    static constexpr int kWords = kInt4Group / 8;
    static constexpr int64_t kWordBytes = kColumns * 4;
    static constexpr int64_t kNumberBytes = kWords * kWordBytes;
    static constexpr int64_t kGroupBytes = kNumberBytes + kColumns * 2;
    static constexpr int kGroupLines = (kGroupBytes + kCacheLine - 1) / kCacheLine;

    static int64_t groups(int64_t in_features) { return (in_features + kInt4Group - 1) / kInt4Group; }
    static int64_t bytes(int64_t in_features) { return groups(in_features) * kGroupBytes; }

    /// The offset of a number's byte.
    static int64_t offset(int64_t column, int64_t k) {
        return k / kInt4Group * kGroupBytes + k % kInt4Group / 8 * kWordBytes + column * 4 + k % 4;
    }
    static int shift(int64_t k) { return k % 8 / 4 * 4; }
    /// The offset of a group's step and offset.
    static int64_t pair_offset(int64_t column, int64_t k) {
        return k / kInt4Group * kGroupBytes + kNumberBytes + column * 2;
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
