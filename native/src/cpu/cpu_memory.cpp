#include "cpu/cpu_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace outrider::cpu {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void* allocate(size_t bytes) {
    const size_t unit = bytes >= 2 * kHugePage ? kHugePage : kCacheLine;
    const size_t size = round_up(bytes > 0 ? bytes : 1, unit);
    void* memory = std::aligned_alloc(unit, size);
    if (!memory) {
        throw std::bad_alloc();
    }
#if defined(__linux__)
    if (unit == kHugePage) {
        madvise(memory, size, MADV_HUGEPAGE);  // a hint: without it everything works, only slower
    }
#endif
    std::memset(memory, 0, size);
    return memory;
}

void release(void* memory) noexcept {
    std::free(memory);
}

}  // namespace outrider::cpu
