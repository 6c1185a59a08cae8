// sample_row: draws from a row of logits in host memory.
#pragma once

#include <vector>

#include "sampling/host/row/host_row.h"
#include "sampling/sampling_row.h"

namespace outrider {

/// Scratch memory that a thread reuses from row to row.
struct RowScratch {
    std::vector<float> guided;        // [vocab_size]
    std::vector<float> processed;     // [vocab_size]
    std::vector<float> distribution;  // [vocab_size]
    std::vector<Scored> ranked;
    StepScratch steps;
};

RowSample sample_row(const SamplingRow& row, RowScratch* scratch);

}  // namespace outrider
