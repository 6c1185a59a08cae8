// Tiles: the tile instructions of AMX, as inline assembly. The compiler's intrinsics are macros that only
// take literals, and gcc 12 does not know that they read memory: it drops or moves the stores before them.
#pragma once

#include "cpu/tiles/tile_config.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct Tiles {
    OUTRIDER_INLINE static void configure(const TileConfig& config) {
        asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
    }
    OUTRIDER_INLINE static void release() { asm volatile("tilerelease"); }

    template <int kTile>
    OUTRIDER_INLINE static void load(const void* from, int64_t stride) {
        asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(from), "r"(stride) : "memory");
    }
    template <int kTile>
    OUTRIDER_INLINE static void store(void* to, int64_t stride) {
        asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(kTile), "r"(to), "r"(stride) : "memory");
    }
    template <int kTile>
    OUTRIDER_INLINE static void zero() {
        asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
    }

    /// Adds products of pairs of bf16.
    template <int kSums, int kRows, int kWeights>
    OUTRIDER_INLINE static void multiply_bf16() {
        asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kWeights));
    }
    /// Adds products of four signed values and four unsigned weights.
    template <int kSums, int kRows, int kWeights>
    OUTRIDER_INLINE static void multiply_int8() {
        asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kWeights));
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
