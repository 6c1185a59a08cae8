// Steps: the sampler steps of rows that need more than the plain truncation.
#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"

namespace outrider::cuda {

/// Computes the distributions of those rows, their maxima and their status; needs their maxima.
void run_steps(const Stream& stream, const DrawBatch& batch);

}  // namespace outrider::cuda
