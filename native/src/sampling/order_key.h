// Order keys: integers that compare like the floats they stand for, NaN included, on every device.
#pragma once

#include <cstdint>
#include <limits>

#include "outrider/device/host_device.h"
#include "sampling/portable_math.h"

namespace outrider {

/// Maps floats to integers in the same order: minus infinity lowest, plus infinity greatest, NaN beyond
/// either.
OUTRIDER_HOST_DEVICE inline int32_t order_key(float value) {
    const auto bits = bit_cast<int32_t>(value);
    return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}

OUTRIDER_HOST_DEVICE inline float value_of_key(int32_t key) {
    return bit_cast<float>(key ^ ((key >> 31) & 0x7FFFFFFF));
}

}  // namespace outrider
