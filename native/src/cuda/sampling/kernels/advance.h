// Advance: the state that a draw hands to the next one of its run.
#pragma once

#include <cstdint>

#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"
#include "outrider/decoder/next_rows.h"

namespace outrider::cuda {

/// A row's part in a run.
struct RunRow {
    int32_t num_draws;
    bool counts_tokens;  // for its penalties
    int64_t first_edit;  // its own are those from here to the end, the last of them for tokens to be drawn
    int64_t end_edit;
};

/// Memory of the device.
struct Run {
    const RunRow* rows;  // [num_rows]
    int32_t* tokens;     // [draws, num_rows], kNoToken where none could be drawn
    int64_t num_rows;
    NextRows next;
};

/// Keeps the tokens of a draw, the first being number 0, from the batch's rows, which are the run's first
/// ones; puts them into the next pass, and makes parameters and edits those of the next draw.
void advance(const Stream& stream, const DrawBatch& batch, const Run& run, int draw);

}  // namespace outrider::cuda
