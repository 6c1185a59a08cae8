// Processing: guidance, the mask of what may be drawn, penalties, logit bias, the mask of stop ids, and the
// temperature.
#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"

namespace outrider::cuda {

/// Makes the logits of the guided rows.
void guide(const Stream& stream, const DrawBatch& batch);

/// Makes the processed logits, and the distribution before truncation.
void process(const Stream& stream, const DrawBatch& batch);

}  // namespace outrider::cuda
