// Advance: passes the state from one draw of a run to the next.
#pragma once

#include <cstdint>

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"
#include "outrider/device/next_rows.h"

namespace outrider::cuda {

/// A row's part in a run.
struct RunRow {
    int32_t num_draws;
    bool counts_tokens;  // for its penalties
    int64_t first_edit;  // first of the row's edits; the last of them are for tokens to be drawn
    int64_t end_edit;
};

/// Pointers to device memory.
struct Run {
    const RunRow* rows;  // [num_rows]
    int32_t* tokens;     // [draws, num_rows], kNoToken if none could be drawn
    int64_t num_rows;
    NextRows next;
};

/// Stores the tokens of draw number `draw` (from 0) for the batch's rows, which are the first rows of the
/// run; writes them into the next pass, and updates parameters and edits for the next draw.
void advance(const Stream& stream, const DrawBatch& batch, const Run& run, int draw);

}  // namespace outrider::cuda
