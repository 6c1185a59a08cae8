// Softmax: maxima and float64 sums over rows, in the same order on all devices.
#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"

namespace outrider::cuda {

void find_maxima(const Stream& stream, const DrawBatch& batch, Stage stage);

/// Sums exp(value - maximum); needs the maxima.
void sum_exponentials(const Stream& stream, const DrawBatch& batch, Stage stage);

/// Sums (value - maximum) * exp(value - maximum) over the logits; needs their maxima.
void sum_weighted_exponentials(const Stream& stream, const DrawBatch& batch);

}  // namespace outrider::cuda
