#include "sampling/next_level.h"

#include "sampling/portable_math.h"

namespace outrider {

double next_level(const SamplingNumbers& numbers, double level, double logprob) {
    if (numbers.mirostat_mode != 0) {
        const double surprise = -logprob / kLn2;
        return level - numbers.mirostat_eta * (surprise - numbers.mirostat_tau);
    }
    return numbers.adaptive_decay * level + (1 - numbers.adaptive_decay) * portable_exp(logprob);
}

}  // namespace outrider
