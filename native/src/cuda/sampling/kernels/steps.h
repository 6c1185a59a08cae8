// Steps: what rows go through that do not go through the plain truncation.
#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"

namespace outrider::cuda {

/// Makes the distributions of those rows, and what is known of them; needs their maxima.
void run_steps(const Stream& stream, const DrawBatch& batch);

}  // namespace outrider::cuda
