// RunDraws: the draws of rows that run ahead, each along its own tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/sampling_row.h"

namespace outrider {

/// A row, as its first draw sees it.
struct RunningRow {
    SamplingRow row;
    int count;            // draws; one with a mask has one
    double least_chance;  // that a target draws the same: the run ends after the draw at which it falls below
};

class RunDraws {
  public:
    virtual ~RunDraws() = default;

    /// Enqueues a draw from each of the first so many rows, whose logits are where the first ones were. The
    /// token is the row's in the pass to come, one position on (0 where none could be drawn); a row that has
    /// drawn its last is inactive in it. Rows that draw once have no place there. Returns whether a further
    /// draw is needed, as far as is known: it is not where every row that could go on has failed, or has
    /// ended early, as it may where the host sees each draw.
    virtual bool draw(int num_rows) = 0;

    /// Waits for all draws; each row's tokens, up to one that failed.
    virtual std::vector<std::vector<int32_t>> tokens() = 0;
};

}  // namespace outrider
