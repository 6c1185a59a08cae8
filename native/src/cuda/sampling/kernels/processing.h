// Processing: guidance, token masks, penalties, logit bias, masked ids, and the temperature.
#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"

namespace outrider::cuda {

/// Computes the guided rows' logits.
void guide(const Stream& stream, const DrawBatch& batch);

/// Computes the processed logits, and the distribution before truncation.
void process(const Stream& stream, const DrawBatch& batch);

}  // namespace outrider::cuda
