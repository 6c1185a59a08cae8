// Transpose: rows of float32 values to their places in a weight.
#pragma once

#include <cstdint>

#include "cuda/stream.h"
#include "cuda/weight_view.h"

namespace outrider::cuda {

/// Rounds to the weight's format.  # values: [rows, in_features]
void transpose(const Stream& stream, const float* values, int64_t rows, const WeightView& weight,
               int64_t first_row);

}  // namespace outrider::cuda
