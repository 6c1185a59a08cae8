// Vector types of kLanes lanes, which each vec_<isa>.h defines before it includes this, and operations that
// are the same for every instruction set.
#pragma once

#include <cstdint>

#define OUTRIDER_INLINE inline __attribute__((always_inline))
/// Unrolls a loop over an array of vectors that must stay in registers: unless all indices are constant, the
/// compiler keeps the array on the stack.
#define OUTRIDER_UNROLLED _Pragma("GCC unroll 8")

namespace outrider::cpu::OUTRIDER_ISA {

constexpr int kCacheLine = 64;
constexpr int kNever = 1 << 30;  // more rows than any pass has

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntVec __attribute__((vector_size(4 * kLanes)));
typedef uint32_t BitsVec __attribute__((vector_size(4 * kLanes)));
typedef uint16_t HalfVec __attribute__((vector_size(2 * kLanes)));
typedef int16_t PairVec __attribute__((vector_size(4 * kLanes)));  // two to a lane
typedef uint8_t ByteVec __attribute__((vector_size(4 * kLanes)));  // four to a lane
typedef int8_t SmallVec __attribute__((vector_size(kLanes)));
typedef int8_t SmallPairVec __attribute__((vector_size(2 * kLanes)));

template <typename To, typename From>
OUTRIDER_INLINE To bit_cast(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

OUTRIDER_INLINE Vec splat(float value) {
    return value - Vec{};
}
OUTRIDER_INLINE IntVec splat(int32_t value) {
    return value + IntVec{};
}

/// Rounds to bf16 in integers, to nearest even; NaN stays NaN.
OUTRIDER_INLINE HalfVec rounded_to_bf16(Vec value) {
    const BitsVec bits = bit_cast<BitsVec>(value);
    const BitsVec rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const BitsVec quiet_nan = (bits >> 16) | 0x40;
    return __builtin_convertvector(value == value ? rounded : quiet_nan, HalfVec);
}

}  // namespace outrider::cpu::OUTRIDER_ISA
