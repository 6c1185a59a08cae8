// Truncation: top-k, top-p and min-p.
#pragma once

#include <vector>

#include "outrider/sampling/sampling_params.h"
#include "sampling/host/row/selection.h"

namespace outrider {

/// The fewest best with such a share of the row, best first, in `ranked`; `best` is the largest value and
/// finite. # values: [count]
void select_nucleus(double top_p, float best, const float* values, int count, std::vector<Scored>* ranked);

/// Sets to minus infinity what top-k, then top-p, then min-p leave out.  # values: [count], at the
/// temperature `best` is the largest value and finite; it always stays. `ranked` is scratch.
void truncate(const SamplingNumbers& params, float best, float* values, int count,
              std::vector<Scored>* ranked);

}  // namespace outrider
