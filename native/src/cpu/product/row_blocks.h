// Rows that go through a slice of weights side by side, so that each load of a weight serves all of them.
#pragma once

#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

template <int kValue>
struct Count {
    static constexpr int value = kValue;
};

/// body(Count<count>{}): `count`, 1 ... kMost, as a constant of the compiler's, so that sums stay in
/// registers.
template <int kMost, typename Body>
OUTRIDER_INLINE void with_count(int64_t count, const Body& body) {
    if (count == kMost) {
        body(Count<kMost>{});
    } else if constexpr (kMost > 1) {
        with_count<kMost - 1>(count, body);
    }
}

/// Rows that take less time than memory: its own prefetch keeps up, and ours would stand in its way.
constexpr int64_t kRowsThatHardwareFeeds = 1;

/// What one block of rows fetches into the nearest cache while it computes: at every step a few cache lines
/// of the slice that comes next. Without it memory would rest while rows pass over a slice that is there
/// already.
struct Ahead {
    const char* first_line;
    int lines;

    OUTRIDER_INLINE void fetch(int64_t offset) const {
        for (int line = 0; line < lines; ++line) {
            __builtin_prefetch(first_line + offset + line * kCacheLine);
        }
    }
};

/// body(Count, first row, Ahead) for blocks of nearly equal size, none above kMost, that share out the
/// `lines` of each step from `next` on.
template <int kMost, typename Body>
OUTRIDER_INLINE void for_row_blocks(int64_t rows, const char* next, int lines, const Body& body) {
    const int64_t blocks = (rows + kMost - 1) / kMost;
    const int fetched = rows > kRowsThatHardwareFeeds ? lines : 0;
    for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = rows * block / blocks;
        const int64_t end = rows * (block + 1) / blocks;
        const int64_t first_line = fetched * block / blocks;
        const int64_t end_line = fetched * (block + 1) / blocks;
        const Ahead ahead{next + first_line * kCacheLine, static_cast<int>(end_line - first_line)};
        with_count<kMost>(end - first, [&](auto count) { body(count, first, ahead); });
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
