// Signals between GPUs that can read and write each other's memory. (PTX ISA, section on the memory consistency model,
// scope .sys.)
#pragma once

#include <cstdint>

namespace outrider::cuda {

/// A fence: a thread of any GPU that sees later writes of this thread also sees its earlier ones.
__device__ inline void publish_to_peers() {
    __threadfence_system();
}

/// Writes a number that a peer waits for, after all that this thread has published.
__device__ inline void signal_peer(uint32_t* flag, uint32_t number) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(flag), "r"(number) : "memory");
}

/// Whether a number, which grows and may wrap around, has been reached.
__device__ inline bool is_reached(const uint32_t* flag, uint32_t number) {
    uint32_t seen;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    return static_cast<int32_t>(seen - number) >= 0;
}

/// Waits until a peer has signalled this number. Traps after some ten seconds: then a peer has failed.
__device__ inline void wait_for_peer(const uint32_t* flag, uint32_t number) {
    constexpr long long kMostCycles = 20'000'000'000;
    const long long began = clock64();
    while (!is_reached(flag, number)) {
        if (clock64() - began > kMostCycles) {
            asm volatile("trap;");
        }
    }
}

}  // namespace outrider::cuda
