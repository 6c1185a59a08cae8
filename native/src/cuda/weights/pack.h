// Pack: converts rows of a checkpoint's values into a weight's layout.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/runtime/stream.h"
#include "cuda/weights/weight_view.h"

namespace outrider::cuda {

/// The bytes of a matrix, without the scales of its output features.
size_t packed_bytes(const WeightView& weight);
bool has_feature_scales(WeightFormat format);

/// Rounds to the weight's format. If a row has a value that is not finite, its scale, if any, becomes NaN.
/// # values: [rows, in_features] of `type`, in device memory
void pack(const Stream& stream, const void* values, SourceType type, int64_t rows, const WeightView& weight,
          int64_t first_row);

}  // namespace outrider::cuda
