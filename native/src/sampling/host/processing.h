// Processing: penalties, logit bias and masks.
#pragma once

#include <vector>

#include "sampling/sampling_row.h"

namespace outrider {

/// Returns the row's processed logits: in `scratch`, or the row's own if nothing changes them.
/// # [vocab_size]
const float* process_logits(const SamplingRow& row, std::vector<float>* scratch);

}  // namespace outrider
