// Feedback steps: Mirostat and adaptive-p, where the host can read the logits.
#pragma once

#include <vector>

#include "outrider/sampling/sampling_params.h"
#include "sampling/host/row/host_row.h"

namespace outrider {

/// The distribution by which a feedback step judges the token that is drawn.
struct Judged {
    std::vector<float> values;  // [vocab_size]
    double norm = 0;            // the log of the sum of their exponentials

    double logprob(int32_t token_id) const { return static_cast<double>(values[token_id]) - norm; }
};

/// Mirostat leaves the tokens of little surprise, and judges by what it leaves. Adaptive-p makes those the
/// most probable that bring the mean to its target, and judges by what it gets.
void run_feedback_step(HostRow& row, const SamplingNumbers& numbers, SamplerStep step, double level,
                       Judged* judged);

/// The level behind a token of this log-probability, in nats; Mirostat's is infinite behind one that could
/// not be drawn. (Basu et al., "Mirostat", arXiv 2007.14966, algorithm 1; llama.cpp's
/// llama_sampler_adaptive_p_accept, whose sum of weights stays at its limit of 1 / (1 - decay) throughout.)
double next_level(const SamplingNumbers& numbers, double level, double logprob);

}  // namespace outrider
