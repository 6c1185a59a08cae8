// for_each and for_each_block on the host, which run a kernel's threads one after another; replaces
// cuda/gpu/launch.cuh.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>

#include "cuda/runtime/stream.h"
#include "emulation/emulated_queue.h"
#include "emulation/thread_block.h"
#include "float_environment.h"
#include "outrider/device/device_error.h"

namespace outrider::cuda {

/// An odd step, about 0.62 of `count`, that visits all places of a circle of `count` places.
inline int64_t scattering_step(int64_t count) {
    int64_t step = count * 5 / 8 | 1;
    while (std::gcd(step, count) != 1) {
        step += 2;
    }
    return step;
}

/// Runs the indices in a scattered order, so that a kernel whose threads read each other's writes fails its
/// tests.
template <typename Body>
void for_each(const Stream& stream, int64_t count, const Body& body) {
    if (count > 0) {
        stream.handle()->enqueue([count, body] {
            const FloatEnvironment environment;
            const int64_t step = scattering_step(count);
            for (int64_t i = 0, index = count / 2; i < count; ++i, index = (index + step) % count) {
                body(index);
            }
        });
    }
}

struct alignas(128) Aligned {
    char bytes[128];
};

struct Block {
    int64_t index;
    int thread;
    char* shared;

    int warp() const { return thread / kWarp; }
    int lane() const { return thread % kWarp; }
    void synchronize() const { ThreadBlock::current().synchronize(); }
};

/// Does nothing: kernels run one after another.
inline void wait_for_previous() {}

/// Fills shared memory with NaN before each block, and runs the blocks in a scattered order.
template <typename Kernel>
void for_each_block(const Stream& stream, int64_t blocks, size_t shared_bytes, const Kernel& kernel) {
    static_assert(Kernel::kThreads % kWarp == 0, "a block is of whole warps");
    if (shared_bytes > stream.block_memory()) {
        throw DeviceError("a kernel's launch failed on CUDA device: too much shared memory");
    }
    count_launch(typeid(Kernel));
    const std::shared_ptr<Aligned[]> shared(new Aligned[shared_bytes / sizeof(Aligned) + 1]);
    const TensorCore core = stream.handle()->tensor_core;
    for_each(stream, blocks, [shared, shared_bytes, kernel, core](int64_t index) {
        std::memset(shared.get(), 0xFF, shared_bytes);
        ThreadBlock::current().run(Kernel::kThreads, core, static_cast<unsigned>(index), [&](int thread) {
            const Block block{index, thread, reinterpret_cast<char*>(shared.get())};
            kernel(block);
        });
    });
}

}  // namespace outrider::cuda
