// Ranking: all tokens of a row in the order of candidates.
#pragma once

#include "cuda/sampling/draw_batch.h"
#include "cuda/stream.h"

namespace outrider::cuda {

void rank(const Stream& stream, const DrawBatch& batch, Stage stage);

}  // namespace outrider::cuda
