// Memory for tensors on the CPU.
#pragma once

#include <cstddef>

namespace outrider::cpu {

/// Aligned to cache lines, in huge pages where it is large. Zeroed, hence committed: a machine with too
/// little memory fails at start-up and not in a request. Throws std::bad_alloc.
void* allocate(size_t bytes);
void release(void* memory) noexcept;

}  // namespace outrider::cpu
