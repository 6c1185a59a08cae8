// Instructions of one lane, on the host; replaces cuda/gpu/instructions.cuh.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cuda/values/values.cuh"
#include "cuda/values/words.h"
#include "emulation/emulated_queue.h"

namespace outrider::cuda {

/// Aborts on a misaligned address, which ends a kernel on a GPU.
template <int kCount, bool kOnce>
Words<kCount> load_words(const void* from) {
    if (reinterpret_cast<uintptr_t>(from) % sizeof(Words<kCount>) != 0) {
        std::abort();
    }
    Words<kCount> to;
    std::memcpy(&to, from, sizeof(to));
    return to;
}

inline uint32_t masked_beside(uint32_t word, uint32_t mask, uint32_t bits) {
    return (word & mask) | bits;
}

/// Reads the byte, so that a sanitizer detects an invalid address.
inline void prefetch(const void* from) {
    static_cast<void>(*static_cast<const volatile char*>(from));
}

inline uint32_t multiply_add_pair(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        const auto value = [shift](uint32_t pair) { return bit_cast<float>((pair >> shift & 0xFFFF) << 16); };
        result |= static_cast<uint32_t>(bfloat16_bits(fmaf(value(a), value(b), value(c)))) << shift;
    }
    return result;
}

/// Not atomic, since one thread of one block runs at a time.
inline uint64_t atomic_add(uint64_t* to, uint64_t value) {
    const uint64_t before = *to;
    *to = before + value;
    return before;
}

inline uint32_t arrive(uint32_t* counter, uint32_t count = 1) {
    count_arrival();
    return std::exchange(*counter, *counter + count);
}

inline void publish_writes() {}

inline float load_written(const float* from) {
    return *from;
}

inline Words<4> load_written_words(const void* from) {
    return load_words<4, false>(from);
}

inline uint32_t bfloat16_pair(float low, float high) {
    return static_cast<uint32_t>(bfloat16_bits(high)) << 16 | bfloat16_bits(low);
}

}  // namespace outrider::cuda
