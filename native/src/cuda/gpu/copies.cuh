// Asynchronous copies into shared memory. (PTX ISA, section on cp.async; compute capability 8.0.)
#pragma once

#include <cstdint>

namespace outrider::cuda {

/// The bytes of one copy; both addresses must be multiples of it.
constexpr int kCopyBytes = 16;

/// Starts a copy into shared memory, or fills the place with zeros if `is_there` is false; `from` must be a
/// valid address all the same. kOnce: no other block of the multiprocessor reads the data, so the copy
/// bypasses L1.
template <bool kOnce>
__device__ void begin_copy(char* to, const void* from, bool is_there = true) {
    const auto place = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    const int bytes = is_there ? kCopyBytes : 0;
    if constexpr (kOnce) {
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;"
                     :
                     : "r"(place), "l"(from), "r"(bytes)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
                     :
                     : "r"(place), "l"(from), "r"(bytes)
                     : "memory");
    }
}

/// Commits the copies that this thread has started since the last call as a group, which may be empty.
__device__ inline void close_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until all of this thread's groups but the last kOpen are complete and visible to it. Other threads
/// see the data after the next barrier of their warp or block.
template <int kOpen>
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" : : "n"(kOpen) : "memory");
}

}  // namespace outrider::cuda
