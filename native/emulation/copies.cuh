// Copies that go on while a thread does something else, on the host, in the place of cuda/gpu/copies.cuh:
// they are made as late as they may be, and what is read before that is NaN.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "emulation/thread_block.h"

namespace outrider::cuda {

constexpr int kCopyBytes = 16;

/// A misaligned address ends the process, as it ends a kernel.
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
