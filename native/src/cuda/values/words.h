// Words: the result of one load, in 32-bit words.
#pragma once

#include <cstdint>

#include "outrider/device/host_device.h"

namespace outrider::cuda {

template <int kCount>
struct alignas(kCount * 4) Words {
    uint32_t words[kCount];
};

/// Reads aligned words from shared memory.
template <int kCount>
OUTRIDER_HOST_DEVICE Words<kCount> read_words(const char* from) {
    return *reinterpret_cast<const Words<kCount>*>(from);
}

}  // namespace outrider::cuda
