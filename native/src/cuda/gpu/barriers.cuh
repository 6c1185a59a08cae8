// Barriers in shared memory, and bulk copies that signal them. (PTX ISA, sections on mbarrier and
// cp.async.bulk; compute capability 9.0.)
#pragma once

#include <cstdint>

namespace outrider::cuda {

/// A phase ends when all arrivals and all expected bytes have come; the phases' parities are 0, 1, 0 …
struct Barrier {
    uint64_t state;

    /// Called by one thread, before publish_barriers.
    __device__ void initialise(int arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(place()), "r"(arrivals) : "memory");
    }

    __device__ void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(place()) : "memory");
    }

    /// Arrives, and makes the phase also wait for `bytes` bytes.
    __device__ void arrive_expecting(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :
                     : "r"(place()), "r"(bytes)
                     : "memory");
    }

    /// Waits until a phase of this parity has ended; parity 1 counts as ended before the first phase. Traps
    /// after some ten seconds, since such a wait would never end.
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

/// Makes barriers that this thread has initialised visible to copies and other threads, after the next
/// __syncthreads.
__device__ inline void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Starts a copy into shared memory; addresses and sizes must be multiples of 16 bytes.
__device__ inline void begin_bulk_copy(char* to, const void* from, int bytes, Barrier& arrives_at) {
    const auto place = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :
                 : "r"(place), "l"(from), "r"(bytes), "r"(arrives_at.place())
                 : "memory");
}

}  // namespace outrider::cuda
