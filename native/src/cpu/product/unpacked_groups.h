// UnpackedGroups: some groups of a micro-panel, unpacked once for many rows: a byte for each number, and
// scales and offsets in float32.
#pragma once

#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

template <typename MicroPanel>
class UnpackedGroups {
    using Numbers = typename MicroPanel::Numbers;
    static constexpr int64_t kColumns = MicroPanel::kColumns;
    static constexpr int64_t kWordBytes = MicroPanel::kWordBytes;
    static constexpr int64_t kSteps = MicroPanel::kGroups.size / 4;  // of four inputs each
    static constexpr int64_t kMost = MicroPanel::kSlice * MicroPanel::kGroupsOfBlock;
    static constexpr bool kHasOffsets = MicroPanel::kGroups.has_offsets;
    static constexpr bool kIsPacked = Numbers::kParts > 1;

  public:
    /// Unpacks `blocks` blocks, at most kSlice.
    UnpackedGroups(const char* weights, int64_t blocks) : weights_(weights) {
        for (int64_t index = 0; index < blocks * MicroPanel::kGroupsOfBlock; ++index) {
            unpack_scales(index);
            if constexpr (kIsPacked) {
                unpack_numbers(stored(index), bytes_ + index * kSteps * kWordBytes);
            }
        }
    }

    const char* numbers(int64_t index) const {  // [kSteps, kColumns, 4]
        return kIsPacked ? bytes_ + index * kSteps * kWordBytes : stored(index);
    }
    OUTRIDER_INLINE Vec scale(int64_t index, int64_t column) const {
        return load(scales_ + index * kColumns + column);
    }
    OUTRIDER_INLINE Vec offset(int64_t index, int64_t column) const {
        return kHasOffsets ? load(offsets_ + index * kColumns + column) : Vec{};
    }

  private:
    const char* units(int64_t index) const {
        return weights_ + index / MicroPanel::kGroupsOfBlock * MicroPanel::kBlockBytes;
    }
    const char* stored(int64_t index) const {
        return units(index) + MicroPanel::kHeadBytes +
               index % MicroPanel::kGroupsOfBlock * MicroPanel::kGroupBytes;
    }

    void unpack_scales(int64_t index) {
        for (int64_t column = 0; column < kColumns; column += kLanes) {
            store(scales_ + index * kColumns + column,
                  MicroPanel::template scales<false>(units(index), stored(index), column));
            if constexpr (kHasOffsets) {
                store(offsets_ + index * kColumns + column,
                      MicroPanel::template scales<true>(units(index), stored(index), column));
            }
        }
    }

    static void unpack_numbers(const char* from, char* to) {
        for (int64_t step = 0; step < kSteps; ++step) {
            const char* words = from + step / Numbers::kParts * kWordBytes;
            for (int64_t at = 0; at < kWordBytes; at += sizeof(ByteVec)) {
                store_as(to + step * kWordBytes + at,
                         Numbers::part(load_as<ByteVec>(words + at), step % Numbers::kParts));
            }
        }
    }

    const char* weights_;
    alignas(kCacheLine) char bytes_[kIsPacked ? kMost * kSteps * kWordBytes : 1];
    alignas(kCacheLine) float scales_[kMost * kColumns];
    alignas(kCacheLine) float offsets_[kHasOffsets ? kMost * kColumns : 1];
};

}  // namespace outrider::cpu::OUTRIDER_ISA
