// next_level: the level of a feedback sampler after a drawn token.
#pragma once

#include "outrider/sampling/sampling_params.h"
#include "sampling/portable_math.h"

namespace outrider {

/// The level after a token with this log-probability, in nats, in the distribution that judges it; Mirostat's
/// is infinite after a token that could not be drawn. (Basu et al., "Mirostat", arXiv 2007.14966, algorithm
/// 1; llama.cpp's llama_sampler_adaptive_p_accept, whose sum of weights stays at its limit of 1 / (1 - decay)
/// throughout.)
inline double next_level(const SamplingNumbers& numbers, double level, double logprob) {
    if (numbers.mirostat_mode != 0) {
        const double surprise = -logprob / kLn2;
        return level - numbers.mirostat_eta * (surprise - numbers.mirostat_tau);
    }
    return numbers.adaptive_decay * level + (1 - numbers.adaptive_decay) * portable_exp(logprob);
}

}  // namespace outrider
