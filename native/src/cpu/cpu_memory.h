// Host memory for tensors, in huge pages where it is large.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider::cpu {

constexpr int64_t kHugePage = int64_t{2} << 20;

/// Returns memory that is zeroed, aligned to cache lines, and in huge pages where it is large. It takes up
/// memory once it is written. Throws std::bad_alloc.
void* allocate(size_t bytes);
void release(void* memory) noexcept;

/// Makes memory take up what it will: the system clears each page that was not written yet. Others may write
/// to it meanwhile.
void commit(char* memory, int64_t bytes);

}  // namespace outrider::cpu
