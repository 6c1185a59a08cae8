// Truncation: top-k, top-p and min-p.
#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"

namespace outrider::cuda {

/// Sets to minus infinity what top-k, then top-p, then min-p leave out; needs the distributions' maxima.
void truncate(const Stream& stream, const DrawBatch& batch);

}  // namespace outrider::cuda
