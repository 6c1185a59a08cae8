// Truncation: top-k, top-p and min-p.
#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"

namespace outrider::cuda {

/// Sets to minus infinity the tokens that top-k, then top-p, then min-p remove; needs the distributions'
/// maxima.
void truncate(const Stream& stream, const DrawBatch& batch);

}  // namespace outrider::cuda
