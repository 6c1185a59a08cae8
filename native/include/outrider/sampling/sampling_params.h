// SamplingParams: how one sequence's tokens are drawn.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace outrider {

/// Below this temperature the draw is the plain argmax: the noise would no longer decide anything but
/// near-ties.
constexpr float kGreedyTemperature = 1e-5f;

struct SamplingParams {
    uint64_t seed = 0;
    float temperature = 1.0f;
    int64_t top_k = 0;   // 0: off
    double top_p = 1.0;  // 1: off
    double min_p = 0.0;  // 0: off
    float repetition_penalty = 1.0f;
    float frequency_penalty = 0.0f;
    float presence_penalty = 0.0f;
    std::vector<std::pair<int32_t, float>>
        logit_bias;  // (token id, added to its logit); minus infinity bans it
    int64_t min_tokens = 0;
    std::vector<int32_t> stop_ids;  // masked while fewer than min_tokens are generated
    bool logprobs = false;
    int64_t num_candidates = 0;
    bool rank = false;
    bool entropy = false;
    bool forced = false;  // rows tell of the tokens laid over the history, and none is drawn

    bool greedy() const { return temperature < kGreedyTemperature; }
    bool penalises() const {
        return repetition_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f;
    }

    /// Throws std::invalid_argument naming the first field out of its range.
    void validate() const;
};

}  // namespace outrider
