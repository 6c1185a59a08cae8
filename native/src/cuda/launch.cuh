// for_each: the one way in which kernels run.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/stream.h"

namespace outrider::cuda {

constexpr int kThreadsPerBlock = 128;

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

}  // namespace outrider::cuda
