// Guidance: moves a row's logits away from those after a negative prompt.
#pragma once

#include <vector>

#include "sampling/sampling_row.h"

namespace outrider {

/// Computes the guided logits of a row that has negative logits.  # guided: [vocab_size]
void guide(const SamplingRow& row, std::vector<float>* guided);

}  // namespace outrider
