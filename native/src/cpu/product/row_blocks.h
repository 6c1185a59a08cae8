// Blocks of rows that use a slice of weights side by side, so that each loaded weight serves all of them.
#pragma once

#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

template <int kValue>
struct Count {
    static constexpr int value = kValue;
};

/// Calls body(Count<count>{}) with `count`, 1 ... kMost, as a compile-time constant, so that sums stay in
/// registers.
template <int kMost, typename Body>
OUTRIDER_INLINE void with_count(int64_t count, const Body& body) {
    if (count == kMost) {
        body(Count<kMost>{});
    } else if constexpr (kMost > 1) {
        with_count<kMost - 1>(count, body);
    }
}

/// Up to this many rows take less time than memory does: hardware prefetching keeps up, and ours would hinder
/// it.
constexpr int64_t kRowsThatHardwareFeeds = 1;

/// Prefetches into the L2 cache while a block of rows computes: at every step a few cache lines of the next
/// slice, in order. Without it memory would idle while rows use a slice that is cached already. In the L1
/// cache the lines would evict the slice in use: passes of 4 to 16 rows would take up to half longer, as
/// measured with AVX-512.
struct Ahead {
    static constexpr int kToRead = 0;
    static constexpr int kIntoSecondCache = 2;

    const char* line;
    const char* end;
    int lines;  // per step

    OUTRIDER_INLINE void fetch() {
        if (line < end) {
            for (int each = 0; each < lines; ++each) {
                __builtin_prefetch(line + each * kCacheLine, kToRead, kIntoSecondCache);
            }
            line += lines * kCacheLine;
        }
    }
};

/// Calls body(Count, first row, Ahead) for blocks of nearly equal size, none above kMost. Together they
/// prefetch the `bytes` from `next` on, each block a part of them; a single block prefetches `step_lines`
/// cache lines at each step.
template <int kMost, typename Body>
OUTRIDER_INLINE void for_row_blocks(int64_t rows, const char* next, int64_t bytes, int step_lines,
                                    const Body& body) {
    const int64_t blocks = (rows + kMost - 1) / kMost;
    const int64_t fetched = rows > kRowsThatHardwareFeeds ? (bytes + kCacheLine - 1) / kCacheLine : 0;
    const int lines = static_cast<int>((step_lines + blocks - 1) / blocks);
    for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = rows * block / blocks;
        const int64_t end = rows * (block + 1) / blocks;
        const Ahead ahead{next + fetched * block / blocks * kCacheLine,
                          next + fetched * (block + 1) / blocks * kCacheLine, lines};
        with_count<kMost>(end - first, [&](auto count) { body(count, first, ahead); });
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
