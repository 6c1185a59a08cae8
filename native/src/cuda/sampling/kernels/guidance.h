// Guidance: logits drawn away from those behind a negative prompt.
#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"

namespace outrider::cuda {

/// Makes the logits of the guided rows.
void guide(const Stream& stream, const DrawBatch& batch);

}  // namespace outrider::cuda
