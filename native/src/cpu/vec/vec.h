// Vec: a vector register of floats. Included only by files that are compiled once per instruction set;
// everything is in a namespace named after the set, so that the linker never merges two versions of one
// function. For the same reason nothing here uses the standard library.
//
// An instruction set is a vec_<isa>.h, which defines
//   kLanes                             lanes of a register, 32 bits each
//   RegisterBlocking                   the sizes of blocks that are computed side by side:
//     kVectors, kRows                    vectors of output features by rows of a product
//     kInt4Rows                          rows of a product with int4 weights
//     kInt4Words                         words of a group of int4 weights that are multiplied without a loop
//     kUnpackedRows                      fewest rows for which int4 weights are usually unpacked once
//     kQueries                           queries of attention
//     kSteps                             steps of K in a slice of weights, which fits into the L1 cache
//     kPassRows                          rows for which a micro-panel is read once (tiles have their own)
//   lane_indices()                     0, 1, 2 ...
//   multiply_add(a, b, c)              a * b + c: fused if the instruction set can, else rounded twice; the
//                                      compiler never chooses
//   maximum(a, b)                      a > b ? a : b
//   widen(HalfVec)                     bf16 to float32
//   widen(SmallVec), widen(SmallPairVec)   int8 to int32, to int16
//   from_float16(HalfVec)              float16 to float32
//   narrow(Vec)                        to bf16, the nearest, ties to even; NaN stays NaN
//   dot_bf16(sum, a, b)                sum + the two products of each lane's bf16 numbers, where there is an instruction
//                                      for it (product/paired_bf16_product.h)
//   upper_halves(ByteVec)              each byte / 16
//   kInt8Offset, dot_int8, GroupSum    products of integers (product/int8_dot.h, product/int4_dot.h)
#pragma once

#include OUTRIDER_VEC_HEADER

namespace outrider::cpu::OUTRIDER_ISA {

/// A bfloat16: the upper half of a float32.
struct BFloat16 {
    uint16_t bits;
};

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

/// The lower or upper four bits of all bytes.
OUTRIDER_INLINE ByteVec halves(ByteVec bytes, int index) {
    return index == 0 ? bytes & 15 : upper_halves(bytes);
}

OUTRIDER_INLINE Vec choose(IntVec mask, Vec yes, Vec no) {
    return mask ? yes : no;
}
OUTRIDER_INLINE Vec absolute(Vec value) {
    return bit_cast<Vec>(bit_cast<BitsVec>(value) & 0x7FFFFFFF);
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
    return __builtin_convertvector(widen(small), Vec);
}

OUTRIDER_INLINE void store(float* to, Vec value) {
    __builtin_memcpy(to, &value, sizeof(value));
}

OUTRIDER_INLINE void store(BFloat16* to, Vec value) {
    const HalfVec half = narrow(value);
    __builtin_memcpy(to, &half, sizeof(half));
}

/// Loads the first `count` lanes, at most all; the others are zero.
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

/// The sum of all lanes, always added in the same tree order.
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
