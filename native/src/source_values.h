// Conversion of a checkpoint's values to float32 on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/device/format.h"

namespace outrider {

/// Converts the values first ... first + count - 1 of an array, which need not be aligned.
std::vector<float> to_float32(const void* values, SourceType type, int64_t first, int64_t count);

}  // namespace outrider
