// Ranking: the best tokens of a row in the order of candidates.
#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"

namespace outrider::cuda {

/// Ranks the number of processed logits that each row requests; needs the logits' maxima.
void rank(const Stream& stream, const DrawBatch& batch);

}  // namespace outrider::cuda
