// What a warp's lanes do together: every lane of the warp calls, at the same place. (PTX ISA, sections on
// shfl, mma, ldmatrix and cp.async; compute capability 8.0.)
#pragma once

#include <cstdint>

#include "cuda/launch.cuh"

namespace outrider::cuda {

__device__ inline void synchronize_warp() {
    __syncwarp();
}

/// The value of the lane `from`.
template <typename T>
__device__ T shuffle(T value, int from) {
    return __shfl_sync(0xFFFFFFFFu, value, from);
}

/// The value of the lane whose number differs from the caller's in the bits of `mask`.
template <typename T>
__device__ T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(0xFFFFFFFFu, value, mask);
}

/// sums += a * b, 16 rows by 8 columns over 16 k in bf16, two to a register, the lower k in its lower half.
/// With g = lane / 4 and c = lane % 4, a lane holds
///   a: k 2c and 2c + 1 of rows g and g + 8, then k 2c + 8 and 2c + 9 of these;
///   b: k 2c and 2c + 1 of column g, then k 2c + 8 and 2c + 9 of it;
///   sums: columns 2c and 2c + 1 of row g, then of row g + 8.
__device__ inline void multiply_add_tile(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Four tiles of 8 rows of 8 16-bit values in shared memory: lane 8 i + j names row j of tile i (16 bytes),
/// and gets columns 2c and 2c + 1 of row g of each tile.
__device__ inline void load_tiles(uint32_t (&tiles)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
                 : "memory");
}

/// The same, but rows 2c and 2c + 1 of column g.
__device__ inline void load_tiles_transposed(uint32_t (&tiles)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
                 : "memory");
}

/// Begins a copy of 16 aligned bytes to shared memory, or of zeros where nothing is there (then `from` is not
/// read).
__device__ inline void copy_ahead(void* to, const void* from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(__cvta_generic_to_global(from)), "r"(is_there ? 16 : 0)
                 : "memory");
}

/// The calling thread's copies since the last call become a group.
__device__ inline void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits for the calling thread's groups but the last kPending; others see the bytes after a barrier.
template <int kPending>
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace outrider::cuda
