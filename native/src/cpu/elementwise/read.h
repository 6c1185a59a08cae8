// Reads memory without further work: the memory bandwidth that other operations are compared with.
#pragma once

#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Loads each byte once.  # bytes: a multiple of kReadUnit
inline void read(const char* from, int64_t bytes) {
    constexpr int kParts = 4;
    constexpr int64_t kAhead = 8192;  // hardware prefetching alone comes too late for full speed
    IntVec parts[kParts] = {};
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(kParts * sizeof(IntVec))) {
        for (int part = 0; part < kParts; ++part) {
            const char* here = from + at + part * sizeof(IntVec);
            __builtin_prefetch(here + kAhead);
            parts[part] |= load_as<IntVec>(here);
        }
    }
    for (const IntVec& part : parts) {
        asm volatile("" : : "m"(part));  // else the compiler drops the loads
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
