// Processing: penalties, logit bias, the mask of stop ids and the mask of what may be drawn.
#pragma once

#include <vector>

#include "sampling_row.h"

namespace outrider {

/// The row's processed logits: in `scratch`, or the row's own where nothing changes them.  # [vocab_size]
const float* process_logits(const SamplingRow& row, std::vector<float>* scratch);

}  // namespace outrider
