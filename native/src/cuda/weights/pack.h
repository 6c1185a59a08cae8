// Pack: rows of a checkpoint's values to their places in a weight.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/runtime/stream.h"
#include "cuda/weights/weight_view.h"

namespace outrider::cuda {

/// Bytes that a matrix takes, without the scales that output features have.
size_t packed_bytes(const WeightView& weight);
bool has_feature_scales(WeightFormat format);

/// Rounds to the weight's format. A row with a value that is not finite becomes NaN where it has a scale.
/// # values: [rows, in_features] of `type`, in the device's memory
void pack(const Stream& stream, const void* values, SourceType type, int64_t rows, const WeightView& weight,
          int64_t first_row);

}  // namespace outrider::cuda
