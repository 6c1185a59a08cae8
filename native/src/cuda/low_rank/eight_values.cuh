// EightValues: eight neighbouring values, loaded together.
#pragma once

#include <cstdint>

#include "cuda/primitives/instructions.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {

constexpr int kValues = 8;

struct EightValues {
    float at[kValues];
};

/// `from` must be aligned.
__device__ inline EightValues load_eight(const float* from) {
    EightValues values;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const Words<4> words = load_words<4, false>(from + half * 4);
#pragma unroll
        for (int each = 0; each < 4; ++each) {
            values.at[half * 4 + each] = bit_cast<float>(words.words[each]);
        }
    }
    return values;
}

/// The same for bf16.
__device__ inline EightValues load_eight(const uint16_t* from) {
    const Words<4> words = load_words<4, false>(from);
    EightValues values;
#pragma unroll
    for (int each = 0; each < 4; ++each) {
        values.at[2 * each] = bit_cast<float>(words.words[each] << 16);
        values.at[2 * each + 1] = bit_cast<float>(words.words[each] & 0xFFFF0000u);
    }
    return values;
}

struct alignas(16) FourFloats {
    float at[4];
};

/// Adds the first `count` of the values, at most all, to the values at `to`.
__device__ inline void add_eight(float* to, const EightValues& values, int count) {
    if (count >= kValues && reinterpret_cast<uintptr_t>(to) % sizeof(FourFloats) == 0) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            auto* place = reinterpret_cast<FourFloats*>(to) + half;
            FourFloats sums = *place;
#pragma unroll
            for (int each = 0; each < 4; ++each) {
                sums.at[each] += values.at[half * 4 + each];
            }
            *place = sums;
        }
        return;
    }
#pragma unroll
    for (int each = 0; each < kValues; ++each) {
        if (each < count) {
            to[each] += values.at[each];
        }
    }
}

}  // namespace outrider::cuda
