// RunDraws: the draws of rows that run ahead, each row continuing from its own tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/sampling_row.h"

namespace outrider {

/// A row as its first draw sees it, and the length of its run.
struct RunningRow {
    SamplingRow row;
    int count;            // number of draws; 1 with a mask
    double least_chance;  // least chance that a target draws the same tokens, see RunAhead
};

class RunDraws {
  public:
    virtual ~RunDraws() = default;

    /// Enqueues a draw from each of the first `num_rows` rows, whose logits are in the same memory as those
    /// of the first draw. The token (0 if none could be drawn) goes into the row's place in the next pass,
    /// one position later; after its last draw a row is inactive there. Rows that draw once have no such
    /// place. Returns false if no further draw is needed: if every row has drawn its last token or, as far as
    /// the host can see, has failed or ended early.
    virtual bool draw(int num_rows) = 0;

    /// Waits for all draws; returns each row's tokens, up to a draw that failed.
    virtual std::vector<std::vector<int32_t>> tokens() = 0;
};

}  // namespace outrider
