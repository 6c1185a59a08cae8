// Asynchronous copies on the host; replaces cuda/gpu/copies.cuh. Copies are made as late as allowed, and
// their destination is NaN until then.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "emulation/thread_block.h"

namespace outrider::cuda {

constexpr int kCopyBytes = 16;

/// Aborts on a misaligned address, which ends a kernel on a GPU.
template <bool kOnce>
void begin_copy(char* to, const void* from, bool is_there = true) {
    if ((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) % kCopyBytes != 0) {
        std::abort();
    }
    std::memset(to, 0xFF, kCopyBytes);
    ThreadBlock::current().copies().begin({to, is_there ? from : nullptr, kCopyBytes});
}

inline void close_copies() {
    ThreadBlock::current().copies().close();
}

template <int kOpen>
void wait_for_copies() {
    ThreadBlock::current().copies().wait(kOpen);
}

}  // namespace outrider::cuda
