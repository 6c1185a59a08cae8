// Memory for tensors on the CPU.
#pragma once

#include <cstddef>

namespace outrider::cpu {

/// Zeroed and aligned to cache lines, in huge pages where it is large. Throws std::bad_alloc.
void* allocate(size_t bytes);
void release(void* memory) noexcept;

}  // namespace outrider::cpu
