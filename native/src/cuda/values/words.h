// Words: what one load brings.
#pragma once

#include <cstdint>

#include "outrider/device/host_device.h"

namespace outrider::cuda {

template <int kCount>
struct alignas(kCount * 4) Words {
    uint32_t words[kCount];
};

/// Reads aligned words of the block's memory.
template <int kCount>
OUTRIDER_HOST_DEVICE Words<kCount> read_words(const char* from) {
    return *reinterpret_cast<const Words<kCount>*>(from);
}

}  // namespace outrider::cuda
