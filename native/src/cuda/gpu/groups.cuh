// Operations of a warpgroup, four warps: every thread of the group must call, at the same place. (PTX ISA,
// section on wgmma; only compute capability 9.0.)
#pragma once

#include <cstdint>

#include "cuda/gpu/launch.cuh"

namespace outrider::cuda {

constexpr int kGroup = 4 * kWarp;

/// A right operand in shared memory: cores of 8 columns by 8 k, 16 bytes for each column. The second core of
/// a step's 16 k follows the first after `along_k` bytes, and the next eight columns after `along_columns`.
/// (PTX ISA, "Matrix Descriptor Format": leading and stride dimension byte offsets, no swizzle.)
struct RightOperand {
    uint64_t descriptor;

    __device__ RightOperand(const char* at, int along_k, int along_columns)
        : descriptor((static_cast<uint32_t>(__cvta_generic_to_shared(at)) & 0x3FFFF) >> 4 |
                     static_cast<uint64_t>(along_k >> 4) << 16 |
                     static_cast<uint64_t>(along_columns >> 4) << 32) {}
};

/// Prevents the compiler from moving accesses to these registers across this place.
template <int kCount>
__device__ void pin(float (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        asm volatile("" : "+f"(registers[i])::"memory");
    }
}
template <int kCount>
__device__ void pin(uint32_t (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        asm volatile("" : "+r"(registers[i])::"memory");
    }
}

/// Must be called before a multiplication of registers that other instructions have written.
__device__ inline void begin_multiplying() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Commits the multiplications since the last call as one set.
__device__ inline void close_multiplications() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until all sets but the last kOpen are done; until then nothing may touch their operands and sums.
template <int kOpen>
__device__ void wait_for_multiplications() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(kOpen) : "memory");
}

/// Starts sums += a * b, 64 rows by kColumns columns over 16 k in bf16. Each warp has 16 of the rows; its
/// registers of `a` are laid out as in mma_m16n8k16, and so are sums[4 j] ... sums[4 j + 3] for columns 8 j
/// ... 8 j + 7.
template <int kColumns>
__device__ void multiply_group(float (&sums)[kColumns / 2], const uint32_t (&a)[4], RightOperand b);

#define OUTRIDER_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define OUTRIDER_SUMS_16(i) \
    OUTRIDER_SUMS_4(i), OUTRIDER_SUMS_4(i + 4), OUTRIDER_SUMS_4(i + 8), OUTRIDER_SUMS_4(i + 12)

template <>
__device__ inline void multiply_group<128>(float (&sums)[64], const uint32_t (&a)[4], RightOperand b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
        "%22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
        "%44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
        : OUTRIDER_SUMS_16(0), OUTRIDER_SUMS_16(16), OUTRIDER_SUMS_16(32), OUTRIDER_SUMS_16(48)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor));
}

template <>
__device__ inline void multiply_group<192>(float (&sums)[96], const uint32_t (&a)[4], RightOperand b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
        "%22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
        "%44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, "
        "%68, %69, %70, %71, "
        "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
        "%92, %93, %94, %95}, "
        "{%96, %97, %98, %99}, %100, 1, 1, 1, 0;"
        : OUTRIDER_SUMS_16(0), OUTRIDER_SUMS_16(16), OUTRIDER_SUMS_16(32), OUTRIDER_SUMS_16(48),
          OUTRIDER_SUMS_16(64), OUTRIDER_SUMS_16(80)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor));
}

#undef OUTRIDER_SUMS_16
#undef OUTRIDER_SUMS_4

/// A barrier for the threads 0 ... kThreads - 1 of a block only.
template <int kThreads>
__device__ void synchronize_first() {
    asm volatile("bar.sync 1, %0;" : : "n"(kThreads) : "memory");
}

/// Sets the number of registers of each thread of the group: take_registers raises it, and waits for ever
/// unless other groups have given up enough.
template <int kCount>
__device__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kCount));
}
template <int kCount>
__device__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kCount));
}

}  // namespace outrider::cuda
