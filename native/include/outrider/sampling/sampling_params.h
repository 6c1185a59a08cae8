// SamplingParams: how one sequence's tokens are drawn.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "outrider/device/host_device.h"

namespace outrider {

/// Below this temperature the draw is the plain argmax: the noise would no longer decide anything but
/// near-ties.
constexpr float kGreedyTemperature = 1e-5f;

/// The numbers by which a token is drawn: plain memory, which a device's kernels read as it is.
struct SamplingNumbers {
    float temperature = 1.0f;
    int64_t top_k = 0;   // 0: off
    double top_p = 1.0;  // 1: off
    double min_p = 0.0;  // 0: off
    float repetition_penalty = 1.0f;
    float frequency_penalty = 0.0f;
    float presence_penalty = 0.0f;

    OUTRIDER_HOST_DEVICE bool greedy() const { return temperature < kGreedyTemperature; }
    bool penalises() const {
        return repetition_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f;
    }
    OUTRIDER_HOST_DEVICE bool has_top_k(int64_t vocab_size) const { return top_k > 0 && top_k < vocab_size; }
    /// Whether top-k or top-p cuts a row off behind a certain candidate.
    OUTRIDER_HOST_DEVICE bool cuts(int64_t vocab_size) const {
        return !greedy() && (has_top_k(vocab_size) || top_p < 1);
    }
    /// Whether truncation looks at a row at all.
    OUTRIDER_HOST_DEVICE bool truncates(int64_t vocab_size) const {
        return cuts(vocab_size) || (!greedy() && min_p > 0);
    }
};

/// What a number may be; NaN and the infinities are never allowed.
struct NumberRange {
    double least = std::numeric_limits<float>::lowest();
    double most = std::numeric_limits<float>::max();
    bool excludes_least = false;
};

/// Calls `visit` with the name, the place and the range of each number: who binds or checks them walks these.
template <typename Numbers, typename Visit>
void for_each_number(Numbers& numbers, Visit visit) {
    constexpr double kMost = std::numeric_limits<float>::max();
    visit("temperature", numbers.temperature, NumberRange{0, kMost});
    visit("top_k", numbers.top_k, NumberRange{0, 0x1p63});
    visit("top_p", numbers.top_p, NumberRange{0, 1, true});
    visit("min_p", numbers.min_p, NumberRange{0, 1});
    visit("repetition_penalty", numbers.repetition_penalty, NumberRange{0, kMost, true});
    visit("frequency_penalty", numbers.frequency_penalty, NumberRange{});
    visit("presence_penalty", numbers.presence_penalty, NumberRange{});
}

struct SamplingParams : SamplingNumbers {
    uint64_t seed = 0;
    std::vector<std::pair<int32_t, float>>
        logit_bias;  // (token id, added to its logit); minus infinity bans it
    int64_t min_tokens = 0;
    std::vector<int32_t> stop_ids;  // masked while fewer than min_tokens are generated
    bool logprobs = false;
    int64_t num_candidates = 0;
    bool rank = false;
    bool entropy = false;
    bool forced = false;  // rows tell of the tokens laid over the history, and none is drawn

    /// Throws std::invalid_argument naming the first field out of its range.
    void validate() const;
};

}  // namespace outrider
