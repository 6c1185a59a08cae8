// Processing: the mask of what may be drawn, penalties, logit bias, the mask of stop ids, and the
// temperature.
#pragma once

#include <cstdint>

#include "cuda/sampling/draw_batch.h"
#include "cuda/stream.h"

namespace outrider::cuda {

/// What is done to one logit, in the order of the fields. No two are of the same logit.
struct Edit {
    int32_t row;
    int32_t token_id;
    int32_t generated = 0;  // times, for the penalties
    bool penalised = false;
    bool biased = false;
    bool masked = false;
    float bias = 0.0f;
};

/// Makes the processed logits, and the distribution before truncation.
void process(const Stream& stream, const DrawBatch& batch, const Edit* edits, int64_t num_edits);

}  // namespace outrider::cuda
