// Vec: as many floats as a register of the instruction set holds. Included only by files that are compiled
// once per instruction set; everything lives in a namespace of that set's name, so that the linker never
// merges two versions of one function. For the same reason nothing here uses the standard library.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define OUTRIDER_INLINE inline __attribute__((always_inline))

namespace outrider::cpu::OUTRIDER_ISA {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;  // 128 bits, which every vector unit has
#endif

constexpr int kCacheLine = 64;

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntVec __attribute__((vector_size(4 * kLanes)));
typedef uint32_t BitsVec __attribute__((vector_size(4 * kLanes)));
typedef uint16_t HalfVec __attribute__((vector_size(2 * kLanes)));
typedef int16_t PairVec __attribute__((vector_size(4 * kLanes)));  // two to a lane
typedef uint8_t ByteVec __attribute__((vector_size(4 * kLanes)));  // four to a lane
typedef int8_t SmallVec __attribute__((vector_size(kLanes)));
typedef int8_t SmallPairVec __attribute__((vector_size(2 * kLanes)));

/// The upper half of a float32.
struct BFloat16 {
    uint16_t bits;
};

template <typename To, typename From>
OUTRIDER_INLINE To bit_cast(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

template <typename T>
OUTRIDER_INLINE T load_as(const void* from) {
    T value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
}

template <typename T>
OUTRIDER_INLINE void store_as(void* to, T value) {
    __builtin_memcpy(to, &value, sizeof(value));
}

OUTRIDER_INLINE int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}
OUTRIDER_INLINE int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

OUTRIDER_INLINE Vec splat(float value) {
    return value - Vec{};
}
OUTRIDER_INLINE IntVec splat(int32_t value) {
    return value + IntVec{};
}
OUTRIDER_INLINE IntVec lane_indices() {
#if defined(__AVX512F__)
    return IntVec{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
    return IntVec{0, 1, 2, 3, 4, 5, 6, 7};
#else
    return IntVec{0, 1, 2, 3};
#endif
}

OUTRIDER_INLINE Vec choose(IntVec mask, Vec yes, Vec no) {
    return mask ? yes : no;
}
OUTRIDER_INLINE Vec maximum(Vec a, Vec b) {
    return choose(a > b, a, b);
}
OUTRIDER_INLINE Vec absolute(Vec value) {
    return bit_cast<Vec>(bit_cast<BitsVec>(value) & 0x7FFFFFFF);
}

/// a * b + c: fused where the instruction set fuses, rounded twice where it does not, and never left to the
/// compiler.
OUTRIDER_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
    return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

#if defined(__AVX512F__)
/// Conversions take it where without a mask the compiler would warn of its own header.
constexpr __mmask16 kAllLanes = 0xFFFF;
#endif

OUTRIDER_INLINE Vec widen(HalfVec half) {
#if defined(__AVX512F__)
    const auto bits = bit_cast<BitsVec>(_mm512_maskz_cvtepu16_epi32(kAllLanes, (__m256i)half));
#elif defined(__AVX2__)
    const auto bits = bit_cast<BitsVec>(_mm256_cvtepu16_epi32((__m128i)half));
#else
    const BitsVec bits = __builtin_convertvector(half, BitsVec);
#endif
    return bit_cast<Vec>(bits << 16);
}

/// Rounds to nearest even; NaN stays NaN.
OUTRIDER_INLINE HalfVec narrow(Vec value) {
#if defined(__AVX512BF16__)
    return bit_cast<HalfVec>(_mm512_cvtneps_pbh((__m512)value));
#else
    const BitsVec bits = bit_cast<BitsVec>(value);
    const BitsVec rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const BitsVec quiet_nan = (bits >> 16) | 0x40;
    return __builtin_convertvector(value == value ? rounded : quiet_nan, HalfVec);
#endif
}

OUTRIDER_INLINE Vec load(const float* from) {
    Vec value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
}

OUTRIDER_INLINE Vec load(const BFloat16* from) {
    HalfVec half;
    __builtin_memcpy(&half, from, sizeof(half));
    return widen(half);
}

OUTRIDER_INLINE Vec load(const int8_t* from) {
    SmallVec small;
    __builtin_memcpy(&small, from, sizeof(small));
#if defined(__AVX512F__)
    const auto numbers = (IntVec)_mm512_maskz_cvtepi8_epi32(kAllLanes, (__m128i)small);
#elif defined(__AVX2__)
    const auto numbers = (IntVec)_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(bit_cast<int64_t>(small)));
#else
    const IntVec numbers = __builtin_convertvector(small, IntVec);
#endif
    return __builtin_convertvector(numbers, Vec);
}

OUTRIDER_INLINE void store(float* to, Vec value) {
    __builtin_memcpy(to, &value, sizeof(value));
}

OUTRIDER_INLINE void store(BFloat16* to, Vec value) {
    const HalfVec half = narrow(value);
    __builtin_memcpy(to, &half, sizeof(half));
}

/// The first `count` lanes, or all where there are fewer; the others are zero.
template <typename T>
OUTRIDER_INLINE Vec load_first(const T* from, int64_t count) {
    if (count >= kLanes) {
        return load(from);
    }
    T padded[kLanes] = {};
    for (int64_t lane = 0; lane < count; ++lane) {
        padded[lane] = from[lane];
    }
    return load(padded);
}

template <typename T>
OUTRIDER_INLINE void store_first(T* to, Vec value, int64_t count) {
    if (count >= kLanes) {
        store(to, value);
        return;
    }
    T padded[kLanes];
    store(padded, value);
    for (int64_t lane = 0; lane < count; ++lane) {
        to[lane] = padded[lane];
    }
}

/// Lane i holds what lane i + by holds in `value`.
template <typename T>
OUTRIDER_INLINE T rotated(T value, int by) {
    return __builtin_shuffle(value, (lane_indices() + by) & (kLanes - 1));
}

/// The sum of all lanes, always by the same tree.
template <typename T>
OUTRIDER_INLINE auto sum_lanes(T value) {
#pragma GCC unroll 4
    for (int width = kLanes / 2; width > 0; width /= 2) {
        value += rotated(value, width);
    }
    return value[0];
}

OUTRIDER_INLINE float max_lanes(Vec value) {
#pragma GCC unroll 4
    for (int width = kLanes / 2; width > 0; width /= 2) {
        value = maximum(value, rotated(value, width));
    }
    return value[0];
}

OUTRIDER_INLINE float to_float(float value) {
    return value;
}
OUTRIDER_INLINE float to_float(BFloat16 value) {
    return bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

}  // namespace outrider::cpu::OUTRIDER_ISA
