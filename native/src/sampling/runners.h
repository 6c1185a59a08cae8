// Runners: runs of draws in the order in which they are computed together.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/decoder/batch.h"
#include "outrider/sampling/run_ahead.h"
#include "outrider/sampling/sampler.h"

namespace outrider {

/// The runs of a batch, longest first, so that the runs that continue are the first rows of every pass.
struct Runners {
    Runners(const Batch& batch, const std::vector<RunAhead>& runs);

    int num_runs() const { return static_cast<int>(order.size()); }
    /// The number of runs with more than `length` draws.
    int num_longer(int length) const;

    std::vector<size_t> order;  // index of each run
    std::vector<int32_t> rows;  // rows of the first pass that the runs start from
    std::vector<SequenceRows> sequences;
    std::vector<int> counts;
    std::vector<double> least_chances;
};

/// One row for each of the first runs: the batch row that it draws from, with tables of so many columns. The stored
/// states stay where the first pass has left them.
Batch first_step(const Batch& batch, const Runners& runners, int num_runs, int num_blocks);

}  // namespace outrider
