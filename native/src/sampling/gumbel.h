// The Gumbel noise of a random word, for one number or for eight at once.
#pragma once

#include "outrider/device/host_device.h"
#include "sampling/portable_math.h"

namespace outrider {

/// The noise of a random word. Number: double or Doubles.
template <typename Number>
OUTRIDER_HOST_DEVICE inline Number noise_of(Number word) {
    const Number w = (word + 0.5) * 0x1p-32;
    // 1 - w is exact (w is a multiple of 2^-33), so its logarithm is log1p(-w) to the last bits.
    return -portable_log(-portable_log(1.0 - w));
}

}  // namespace outrider
