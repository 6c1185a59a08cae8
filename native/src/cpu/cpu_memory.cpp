#include "cpu/cpu_memory.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace outrider::cpu {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kSmallestPage = 4096;

size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/// The address that calloc has returned, stored in front of the aligned memory for `release`.
void*& origin(void* memory) {
    return static_cast<void**>(memory)[-1];
}

}  // namespace

void* allocate(size_t bytes) {
    if (bytes > PTRDIFF_MAX / 2) {  // rounding up could overflow
        throw std::bad_alloc();
    }
    const size_t unit = bytes >= size_t{2 * kHugePage} ? kHugePage : kCacheLine;
    // A large block consists of fresh pages, which the system clears when the threads first write them.
    void* block = std::calloc(1, sizeof(void*) + unit + round_up(bytes, kCacheLine));
    if (!block) {
        throw std::bad_alloc();
    }
    void* memory =
        reinterpret_cast<void*>(round_up(reinterpret_cast<uintptr_t>(block) + sizeof(void*), unit));
#if defined(__linux__)
    if (unit == kHugePage) {  // only a hint, for whole pages: the last one might be mostly padding
        madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    }
#endif
    origin(memory) = block;
    return memory;
}

void commit(char* memory, int64_t bytes) {
    const auto touch = [&](int64_t offset) {
        char zero = 0;  // replaces a zero by a zero: changes nothing, even while other threads write
        std::atomic_ref<char>(memory[offset]).compare_exchange_strong(zero, 0, std::memory_order_relaxed);
    };
    for (int64_t offset = 0; offset < bytes; offset += kSmallestPage) {
        touch(offset);
    }
    if (bytes > 0) {
        touch(bytes - 1);
    }
}

void release(void* memory) noexcept {
    if (memory) {
        std::free(origin(memory));
    }
}

}  // namespace outrider::cpu
