// Int4Layout: how a micro-panel holds weights in four bits each.
#pragma once

#include "cpu/vec/vec.h"
#include "outrider/device/format.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// [group] of [4][output feature][4 bytes] and [output feature][2]. The low half of byte j of four bytes i is
/// the number k = 8 i + j of the group, the high half k = 8 i + 4 + j; the last two bytes are the group's
/// step and offset.
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

    /// Where a number's byte is.
    static int64_t offset(int64_t column, int64_t k) {
        return k / kInt4Group * kGroupBytes + k % kInt4Group / 8 * kWordBytes + column * 4 + k % 4;
    }
    static int shift(int64_t k) { return k % 8 / 4 * 4; }
    /// Where the step and the offset of a group are.
    static int64_t pair_offset(int64_t column, int64_t k) {
        return k / kInt4Group * kGroupBytes + kNumberBytes + column * 2;
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
