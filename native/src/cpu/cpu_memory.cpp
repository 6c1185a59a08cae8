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

/// Where `release` finds what calloc gave: in front of the aligned memory.
void*& origin(void* memory) {
    return static_cast<void**>(memory)[-1];
}

}  // namespace

void* allocate(size_t bytes) {
    if (bytes > PTRDIFF_MAX / 2) {  // rounded up, it might begin at 0 again
        throw std::bad_alloc();
    }
    const size_t unit = bytes >= size_t{2 * kHugePage} ? kHugePage : kCacheLine;
    // A large block is fresh pages, which the threads that write them first clear side by side.
    void* block = std::calloc(1, sizeof(void*) + unit + round_up(bytes, kCacheLine));
    if (!block) {
        throw std::bad_alloc();
    }
    void* memory =
        reinterpret_cast<void*>(round_up(reinterpret_cast<uintptr_t>(block) + sizeof(void*), unit));
#if defined(__linux__)
    if (unit == kHugePage) {  // a hint, for whole pages: the last one might be mostly padding
        madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    }
#endif
    origin(memory) = block;
    return memory;
}

void commit(char* memory, int64_t bytes) {
    const auto touch = [&](int64_t offset) {
        char zero = 0;  // replaces a zero: a write that changes nothing, even beside other writers
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
