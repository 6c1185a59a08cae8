// Copies to a block's memory that go on while a thread does something else. (PTX ISA, section on cp.async;
// compute capability 8.0.)
#pragma once

#include <cstdint>

namespace outrider::cuda {

/// Bytes of one copy; both addresses are multiples of them.
constexpr int kCopyBytes = 16;

/// Begins to copy into the block's memory, or to fill it with zeros where there is nothing; `from` is an
/// address all the same. kOnce: no other block of the multiprocessor reads it again, so it bypasses L1.
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

/// The copies that this thread has begun since it last closed a group are one, which may be empty.
__device__ inline void close_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until this thread sees what all of its groups but the last kOpen have copied. Other threads see it
/// after the next barrier of their warp or block.
template <int kOpen>
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" : : "n"(kOpen) : "memory");
}

}  // namespace outrider::cuda
