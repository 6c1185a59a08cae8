// for_each and for_each_block: the two ways in which kernels run.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/runtime/stream.h"

namespace outrider::cuda {

constexpr int kThreadsPerBlock = 128;
constexpr int kWarp = 32;

template <typename Body>
__global__ void run(const Body body, const int64_t count) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index < count) {
        body(index);
    }
}

/// Enqueues body(0) ... body(count - 1), each in a thread of its own and in no order: none may read what
/// another writes. So no sum is split between threads, and what a thread computes depends on its index alone.
template <typename Body>
void for_each(const Stream& stream, int64_t count, const Body& body) {
    if (count > 0) {
        stream.select();
        const auto blocks = static_cast<unsigned>((count + kThreadsPerBlock - 1) / kThreadsPerBlock);
        run<<<blocks, kThreadsPerBlock, 0, stream.handle()>>>(body, count);
        stream.check_launch();
    }
}

/// A thread's place.
struct Block {
    int64_t index;  // of the block
    int thread;     // in the block
    char* shared;   // the block's memory, 128-byte aligned, holding anything

    __device__ int warp() const { return thread / kWarp; }
    __device__ int lane() const { return thread % kWarp; }
    /// Every thread of the block calls: what each has written before, all see after.
    __device__ void synchronize() const { __syncthreads(); }
};

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocksPerMultiprocessor)
    run_block(const Kernel kernel) {
    extern __shared__ __align__(128) char shared[];
    kernel(Block{blockIdx.x, static_cast<int>(threadIdx.x), shared});
}

/// Enqueues `blocks` blocks of Kernel::kThreads threads (whole warps), each of which calls the kernel with
/// its place; blocks run in no order, Kernel::kBlocksPerMultiprocessor of them on one multiprocessor if they
/// are small enough. A thread leaves no barrier and no operation of its warp out.
template <typename Kernel>
void for_each_block(const Stream& stream, int64_t blocks, size_t shared_bytes, const Kernel& kernel) {
    constexpr size_t kUnasked = 48 << 10;  // bytes of shared memory that every kernel may have
    if (blocks > 0) {
        stream.select();
        if (shared_bytes > kUnasked) {
            cudaFuncSetAttribute(run_block<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
        }
        run_block<<<static_cast<unsigned>(blocks), Kernel::kThreads, shared_bytes, stream.handle()>>>(kernel);
        stream.check_launch();
    }
}

}  // namespace outrider::cuda
