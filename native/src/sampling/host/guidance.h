// Guidance: a row's logits drawn away from those behind a negative prompt.
#pragma once

#include <vector>

#include "sampling/sampling_row.h"

namespace outrider {

/// scale * (log p - log q) + log q, where p are the probabilities behind the prompt and q those behind the
/// negative one: classifier-free guidance (Sanchez et al., "Stay on topic with Classifier-Free Guidance",
/// arXiv 2306.17806, equation 7). NaN wherever either has a logit that is NaN or plus infinity, or where q is
/// 0. # guided: [vocab_size]
void guide(const SamplingRow& row, std::vector<float>* guided);

}  // namespace outrider
