// Barriers in a block's memory, and copies of many bytes that arrive at them. (PTX ISA, sections on mbarrier and
// cp.async.bulk; compute capability 9.0.)
#pragma once

#include <cstdint>

namespace outrider::cuda {

/// A phase ends when all arrivals have come and all bytes that they expect; the phases' parities are 0, 1, 0 …
struct Barrier {
    uint64_t state;

    /// One thread calls, before publish_barriers.
    __device__ void initialise(int arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(place()), "r"(arrivals) : "memory");
    }

    __device__ void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(place()) : "memory");
    }

    /// Arrives, and makes the phase wait for so many bytes besides.
    __device__ void arrive_expecting(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :
                     : "r"(place()), "r"(bytes)
                     : "memory");
    }

    /// Waits until a phase of this parity has ended; one of parity 1 has ended before the first. What does not end for
    /// some ten seconds never will, and is an error.
    __device__ void wait(uint32_t parity) {
        constexpr long long kMostCycles = 20'000'000'000;
        if (has_ended(parity)) {
            return;
        }
        const long long began = clock64();
        while (!has_ended(parity)) {
            if (clock64() - began > kMostCycles) {
                asm volatile("trap;");
            }
        }
    }

    __device__ uint32_t place() const { return static_cast<uint32_t>(__cvta_generic_to_shared(this)); }

  private:
    __device__ bool has_ended(uint32_t parity) const {
        uint32_t ended;
        asm volatile(
            "{\n.reg .pred ended;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
            "selp.u32 %0, 1, 0, ended;\n}"
            : "=r"(ended)
            : "r"(place()), "r"(parity)
            : "memory");
        return ended != 0;
    }
};

/// Copies and other threads see barriers that this thread has initialised, after the next __syncthreads.
__device__ inline void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Begins to copy into the block's memory; addresses and bytes are multiples of 16.
__device__ inline void begin_bulk_copy(char* to, const void* from, int bytes, Barrier& arrives_at) {
    const auto place = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :
                 : "r"(place), "l"(from), "r"(bytes), "r"(arrives_at.place())
                 : "memory");
}

}  // namespace outrider::cuda
