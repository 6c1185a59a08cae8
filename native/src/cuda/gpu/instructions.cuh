// Instructions of one lane that C++ cannot express. (PTX ISA, sections on ld, fma and cvt.)
#pragma once

#include <cstdint>

#include "cuda/values/words.h"

namespace outrider::cuda {

/// Reads aligned words that no thread writes meanwhile. Earlier kernels may have written them while this one
/// waited for them, so they are not read as constants (ld.global.nc). kOnce: no other thread of the
/// multiprocessor reads them, so they bypass L1.
template <int kCount, bool kOnce>
__device__ Words<kCount> load_words(const void* from) {
    static_assert(kCount == 1 || kCount == 2 || kCount == 4, "no load has such a width");
    Words<kCount> to;
    uint32_t (&words)[kCount] = to.words;
    if constexpr (kCount == 1) {
        asm("ld.global.u32 %0, [%1];" : "=r"(words[0]) : "l"(from));
    } else if constexpr (kCount == 2 && kOnce) {
        asm("ld.global.L1::no_allocate.L2::256B.v2.u32 {%0, %1}, [%2];"
            : "=r"(words[0]), "=r"(words[1])
            : "l"(from));
    } else if constexpr (kCount == 2) {
        asm("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(from));
    } else if constexpr (kOnce) {
        asm("ld.global.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
            : "l"(from));
    } else {
        asm("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
            : "l"(from));
    }
    return to;
}

/// (word & mask) | bits, in one instruction if `bits` is in a register.
__device__ inline uint32_t masked_beside(uint32_t word, uint32_t mask, uint32_t bits) {
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
    return result;
}

/// Prefetches data into the L2 cache.
__device__ inline void prefetch(const void* from) {
    asm volatile("prefetch.global.L2 [%0];" : : "l"(from));
}

/// a * b + c for two bf16 values per register, rounded once; subnormals are kept.
__device__ inline uint32_t multiply_add_pair(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
}

/// Adds atomically; returns the value before.
__device__ inline uint64_t atomic_add(uint64_t* to, uint64_t value) {
    return atomicAdd(reinterpret_cast<unsigned long long*>(to), value);
}

/// Adds `count` to a counter atomically; returns the value before.
__device__ inline uint32_t arrive(uint32_t* counter, uint32_t count = 1) {
    return atomicAdd(counter, count);
}

/// A fence: a thread that sees later writes of this thread also sees its earlier ones.
__device__ inline void publish_writes() {
    __threadfence();
}

/// Reads a value that another block may have written while this kernel ran.
__device__ inline float load_written(const float* from) {
    return __ldcg(from);
}

/// The same for four aligned neighbours at once.
__device__ inline Words<4> load_written_words(const void* from) {
    Words<4> to;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.words[0]), "=r"(to.words[1]), "=r"(to.words[2]), "=r"(to.words[3])
                 : "l"(from));
    return to;
}

/// Two values rounded to bf16, to nearest with ties to even, in one register.
__device__ inline uint32_t bfloat16_pair(float low, float high) {
    uint32_t result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

}  // namespace outrider::cuda
