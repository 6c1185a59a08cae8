// Truncation: top-k, top-p and min-p.
#pragma once

#include <vector>

#include "outrider/sampling/sampling_params.h"
#include "sampling/host/row/selection.h"

namespace outrider {

/// Puts into `ranked` the most probable tokens whose cumulative probability reaches top_p, best first; `best`
/// is the largest value and finite. # values: [count]
void select_nucleus(double top_p, float best, const float* values, int count, std::vector<Scored>* ranked);

/// Sets to minus infinity the tokens that top-k, then top-p, then min-p remove.  # values: [count], divided
/// by the temperature. `best` is the largest value and finite; its token always stays. `ranked` is scratch.
void truncate(const SamplingNumbers& params, float best, float* values, int count,
              std::vector<Scored>* ranked);

}  // namespace outrider
