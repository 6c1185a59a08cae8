// Operations of a warp: every lane must call, at the same place. (PTX ISA, sections on shfl, mma and ldmatrix; compute
// capability 8.0.)
#pragma once

#include <cstdint>

#include "cuda/gpu/launch.cuh"
#include "cuda/values/words.h"

namespace outrider::cuda {

__device__ inline void synchronize_warp() {
    __syncwarp();
}

/// The value of the lane whose number differs from the caller's in the bits of `mask`.
template <typename T>
__device__ T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(0xFFFFFFFFu, value, mask);
}

/// Reduces kLanes neighbouring lanes by a tree: first pairs are combined, then fours, and so on. All lanes
/// get the same result, since `combine` is commutative to the bit.
template <int kLanes = kWarp, typename T, typename Combine>
__device__ T reduce_warp(T value, const Combine& combine) {
#pragma unroll
    for (int mask = 1; mask < kLanes; mask *= 2) {
        value = combine(value, shuffle_xor(value, mask));
    }
    return value;
}

/// sums += a * b, 16 rows by 8 columns over 16 k in bf16, two values per register, the lower k in the lower
/// half. With g = lane / 4 and c = lane % 4, a lane holds
///   a: k 2c and 2c + 1 of rows g and g + 8, then k 2c + 8 and 2c + 9 of these;
///   b: k 2c and 2c + 1 of column g, then k 2c + 8 and 2c + 9 of it;
///   sums: columns 2c and 2c + 1 of row g, then of row g + 8.
__device__ inline void mma_m16n8k16(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    // volatile: the compiler must not move it to a place that only some lanes reach.
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Four 8 x 8 matrices of 16-bit values in shared memory, transposed. Lane 8 j + r has the address of row r of matrix j.
/// With g = lane / 4 and c = lane % 4, word j of a lane holds column g of rows 2c and 2c + 1 of matrix j.
__device__ inline Words<4> load_transposed(const char* row) {
    const auto place = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    Words<4> to;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.words[0]), "=r"(to.words[1]), "=r"(to.words[2]), "=r"(to.words[3])
                 : "r"(place)
                 : "memory");
    return to;
}

}  // namespace outrider::cuda
