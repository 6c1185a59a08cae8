// Words: what one load brings.
#pragma once

#include <cstdint>

namespace outrider::cuda {

template <int kCount>
struct alignas(kCount * 4) Words {
    uint32_t words[kCount];
};

}  // namespace outrider::cuda
