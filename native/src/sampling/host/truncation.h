// Truncation: top-k, top-p and min-p.
#pragma once

#include <vector>

#include "outrider/sampling/sampling_params.h"
#include "sampling/host/selection.h"

namespace outrider {

/// Whether any of the three would look at a row of this vocabulary.
inline bool truncates(const SamplingParams& params, int vocab_size) {
    return (params.top_k > 0 && params.top_k < vocab_size) || params.top_p < 1 || params.min_p > 0;
}

/// Sets to minus infinity what top-k, then top-p, then min-p leave out.  # values: [count], at the
/// temperature `best` is the largest value and finite; it always stays. `ranked` is scratch.
void truncate(const SamplingParams& params, float best, float* values, int count,
              std::vector<Scored>* ranked);

}  // namespace outrider
