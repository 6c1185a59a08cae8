// Host memory for tensors; large blocks are in huge pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider::cpu {

constexpr int64_t kHugePage = int64_t{2} << 20;

/// Returns zeroed memory, aligned to cache lines; large blocks are in huge pages. The system allocates pages
/// only when they are written. Throws std::bad_alloc.
void* allocate(size_t bytes);
void release(void* memory) noexcept;

/// Makes the system allocate and clear each page that has not been written yet. Other threads may write to
/// the memory meanwhile.
void commit(char* memory, int64_t bytes);

}  // namespace outrider::cpu
