// Draw: the argmax of values plus Gumbel noise, and its statistics.
#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"

namespace outrider::cuda {

/// Sets each row's status: whether it can be drawn from; needs the maxima of logits and distributions.
void decide_status(const Stream& stream, const DrawBatch& batch);

void draw(const Stream& stream, const DrawBatch& batch);

/// Finds the drawn tokens' ranks among the logits.
void find_ranks(const Stream& stream, const DrawBatch& batch);

/// Lists the best processed logits, best first; needs their ranking.
/// # candidates: [num_rows, max_candidates]
void list_candidates(const Stream& stream, const DrawBatch& batch, RankedToken* candidates,
                     int64_t max_candidates);

}  // namespace outrider::cuda
