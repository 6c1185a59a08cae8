// Guidance: a row's logits steered away from those after a negative prompt.
#pragma once

#include <vector>

#include "sampling/sampling_row.h"

namespace outrider {

/// Every guided logit of a row that has negative ones.  # guided: [vocab_size]
void guide(const SamplingRow& row, std::vector<float>* guided);

}  // namespace outrider
