// Penalties on tokens of the history.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "outrider/device/host_device.h"
#include "outrider/sampling/sampling_params.h"
#include "sampling/row_history.h"

namespace outrider {

/// How much of each penalty a token gets: whole numbers, except where a window fades out.
struct Counted {
    float seen = 0;       // share of the repetition penalty, in [0, 1]; 0: the token is not penalised at all
    float generated = 0;  // multiple of the frequency penalty
    float present = 0;    // share of the presence penalty, in [0, 1]

    /// The counts of a token of prompt or generation that was generated `generated` times.
    OUTRIDER_HOST_DEVICE static Counted whole(int generated) {
        return {1, static_cast<float>(generated), generated > 0 ? 1.0f : 0.0f};
    }
};

/// A token's logit after the penalties. A partial repetition penalty is 1 + (penalty - 1) * share.
OUTRIDER_HOST_DEVICE inline float penalised(float logit, const Counted& counted,
                                            const SamplingNumbers& numbers) {
    const float most = numbers.repetition_penalty;
    const float repetition = counted.seen < 1 ? 1 + (most - 1) * counted.seen : most;
    logit = logit > 0 ? logit / repetition : logit * repetition;
    logit -= numbers.frequency_penalty * counted.generated;
    return logit - numbers.presence_penalty * counted.present;
}

/// Counts the tokens of a window, by id. The last `penalty_last_n` places count fully, and the
/// `penalty_decay` places before them less and less: with n places in all, a place followed by d others has
/// weight (n - d) / `penalty_decay`. (ExLlamaV2's `token_repetition_decay`: apply_rep_penalty_cpu in
/// sampling.cpp.)
inline std::unordered_map<int32_t, Counted> count_window(const RowHistory& tokens, int64_t prompt_length,
                                                         const SamplingNumbers& numbers) {
    const int64_t whole = std::min(numbers.penalty_last_n, tokens.length());
    const int64_t fading = std::min(numbers.penalty_decay, tokens.length() - whole);
    std::unordered_map<int32_t, Counted> window;
    for (int64_t place = tokens.length() - whole - fading; place < tokens.length(); ++place) {
        const int64_t after = tokens.length() - 1 - place;
        const double left = static_cast<double>(numbers.penalty_decay) - static_cast<double>(after - whole);
        const bool is_whole = after <= whole;
        const auto part =
            is_whole ? 1.0f : static_cast<float>(left / static_cast<double>(numbers.penalty_decay));
        Counted& counted = window[tokens[place]];
        counted.seen = part;  // share of the latest place
        if (place >= prompt_length) {
            counted.generated += part;
            counted.present = part;
        }
    }
    return window;
}

}  // namespace outrider
