// for_each and for_each_block: the two ways to run kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/runtime/stream.h"

namespace outrider::cuda {

constexpr int kThreadsPerBlock = 128;
constexpr int kWarp = 32;

/// Lets the next kernel be loaded onto the multiprocessors from now on. It waits for this kernel, which waits
/// for the previous one. (CUDA C++ Programming Guide, "Programmatic Dependent Launch".)
__device__ inline void admit_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Waits until all kernels enqueued before are complete, and their writes visible to this thread.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <typename Body>
__global__ void run(const Body body, const int64_t count) {
    admit_next();
    wait_for_previous();
    const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index < count) {
        body(index);
    }
}

/// Enqueues a kernel. If it is early, it is loaded onto the multiprocessors while the previous kernel still
/// runs, if both support that.
template <typename Body, typename... Arguments>
void launch(const Stream& stream, bool is_early, unsigned blocks, int threads, size_t shared_bytes,
            void (*kernel)(Body, Arguments...), const Body& body, Arguments... arguments) {
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream.handle();
    config.attrs = &early;
    config.numAttrs = stream.launches_early() && is_early ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, body, arguments...);
    stream.check_launch();
}

/// Enqueues body(0) ... body(count - 1), each in a thread of its own and in any order: none may read what
/// another writes. So no sum is split between threads, and a thread's result depends on its index alone.
template <typename Body>
void for_each(const Stream& stream, int64_t count, const Body& body) {
    if (count > 0) {
        stream.select();
        const auto blocks = static_cast<unsigned>((count + kThreadsPerBlock - 1) / kThreadsPerBlock);
        launch(stream, true, blocks, kThreadsPerBlock, 0, run<Body>, body, count);
    }
}

/// A thread's position, and the shared memory of its block.
struct Block {
    int64_t index;  // of the block
    int thread;     // in the block
    char* shared;   // the block's shared memory, 128-byte aligned, uninitialised

    __device__ int warp() const { return thread / kWarp; }
    __device__ int lane() const { return thread % kWarp; }
    /// A barrier: all threads of the block must call, and then see each other's earlier writes.
    __device__ void synchronize() const { __syncthreads(); }
};

/// Whether a kernel runs alone: it is not launched early, and the next one starts after it has ended. Early
/// launches pay off for short kernels; beside a long one, waiting blocks take room from working ones.
template <typename Kernel>
constexpr bool runs_alone() {
    return requires { typename Kernel::RunsAlone; };
}

/// Whether a kernel is compiled for this architecture: only Hopper has warpgroup instructions. On other GPUs
/// such a kernel is never launched (Stream::multiplies_in_groups).
template <typename Kernel>
constexpr bool is_compiled() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    return true;
#else
    return !requires { typename Kernel::MultipliesInGroups; };
#endif
}

template <typename Kernel>
__device__ void run_in_order(const Kernel& kernel) {
    extern __shared__ __align__(128) char shared[];
    const Block block{blockIdx.x, static_cast<int>(threadIdx.x), shared};
    if constexpr (!runs_alone<Kernel>()) {
        admit_next();
    }
    if constexpr (!requires { typename Kernel::WaitsItself; }) {
        wait_for_previous();
    }
    if constexpr (is_compiled<Kernel>()) {
        kernel(block);
    } else {
        asm volatile("trap;");
    }
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocksPerMultiprocessor)
    run_block(const Kernel kernel) {
    run_in_order(kernel);
}

/// The same for a kernel that passes references to itself to functions that are not inlined: it stays in the
/// memory of kernel arguments; otherwise each thread would copy it to local memory.
template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocksPerMultiprocessor)
    run_block_in_place(const __grid_constant__ Kernel kernel) {
    run_in_order(kernel);
}

template <typename Kernel>
constexpr auto block_function() {
    if constexpr (requires { Kernel::kIsReferenced; }) {
        return run_block_in_place<Kernel>;
    } else {
        return run_block<Kernel>;
    }
}

/// Enqueues `blocks` blocks of Kernel::kThreads threads (whole warps). Each thread calls the kernel with its
/// position. Blocks run in any order, up to Kernel::kBlocksPerMultiprocessor of them on one multiprocessor if
/// they are small enough. All threads must reach every barrier and every warp operation, and, in a kernel
/// that waits itself, wait_for_previous. Before that, such a kernel may only read memory that was written
/// before the last kernel that held the next one (hold_next), or by it, or by no kernel.
template <typename Kernel>
void for_each_block(const Stream& stream, int64_t blocks, size_t shared_bytes, const Kernel& kernel) {
    constexpr size_t kUnasked = 48 << 10;  // bytes of shared memory that a kernel gets without opting in
    if (blocks > 0) {
        stream.select();
        if (shared_bytes > kUnasked) {
            cudaFuncSetAttribute(block_function<Kernel>(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
        }
        launch(stream, !runs_alone<Kernel>(), static_cast<unsigned>(blocks), Kernel::kThreads, shared_bytes,
               block_function<Kernel>(), kernel);
    }
}

}  // namespace outrider::cuda
