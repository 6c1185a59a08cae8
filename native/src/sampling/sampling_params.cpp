#include "outrider/sampling/sampling_params.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>

namespace outrider {
namespace {

constexpr double kMostGuidance = 100;

void require(bool holds, const char* message) {
    if (!holds) {
        throw std::invalid_argument(message);
    }
}

std::string text_of(double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", value);
    return text;
}

void require_in_range(const char* name, double value, const NumberRange& range) {
    const bool is_above = range.excludes_least ? value > range.least : value >= range.least;
    if (!is_above || !(value <= range.most)) {
        throw std::invalid_argument(std::string(name) + ": is " + text_of(value) + "; it must be " +
                                    (range.excludes_least ? "above " : "at least ") + text_of(range.least) +
                                    ", at most " + text_of(range.most));
    }
}

void require_valid_bias(const std::vector<std::pair<int32_t, float>>& logit_bias) {
    std::set<int32_t> seen;
    for (const auto& [token_id, bias] : logit_bias) {
        require(token_id >= 0, "logit_bias: token ids must not be negative");
        require(bias < std::numeric_limits<float>::infinity(), "logit_bias: a bias must be finite or -inf");
        require(seen.insert(token_id).second, "logit_bias: a token id must not occur twice");
    }
}

void require_each_once(const std::vector<SamplerStep>& samplers) {
    for (auto step = samplers.begin(); step != samplers.end(); ++step) {
        require(static_cast<int>(*step) < kNumSamplerSteps, "samplers: must be steps that there are");
        require(std::find(samplers.begin(), step, *step) == step, "samplers: a step must not occur twice");
    }
}

/// Whether a step is one of the four of the fast path.
bool is_plain(SamplerStep step) {
    return step == SamplerStep::temperature || step == SamplerStep::top_k || step == SamplerStep::top_p ||
           step == SamplerStep::min_p;
}

}  // namespace

SamplerSteps SamplingParams::resolved_steps() const {
    SamplerSteps result;
    if (greedy()) {
        return result;
    }
    const auto size = samplers.empty() ? kNumSamplerSteps : static_cast<int>(samplers.size());
    result.in_use = !samplers.empty() || dynatemp_range > 0;
    for (int i = 0; i < size; ++i) {
        const SamplerStep step = samplers.empty() ? static_cast<SamplerStep>(i) : samplers[i];
        if (is_on(step)) {
            result.steps[result.count++] = step;
            result.in_use = result.in_use || !is_plain(step);
        }
    }
    return result;
}

void SamplingParams::validate() const {
    for_each_number(*this, [](const char* name, auto number, const NumberRange& range) {
        require_in_range(name, static_cast<double>(number), range);
    });
    require(mirostat_mode == 0 || adaptive_target < 0, "adaptive_target: must be below 0 with mirostat_mode");
    require_in_range("guidance_scale", guidance_scale, {0, kMostGuidance, true});
    require(!guides() || !forced, "guidance_scale: must be 1 where nothing is drawn");
    require_each_once(samplers);
    require_valid_bias(logit_bias);
    require(min_tokens >= 0, "min_tokens: must be at least 0");
    for (const int32_t token_id : stop_ids) {
        require(token_id >= 0, "stop_ids: token ids must not be negative");
    }
    for (const std::vector<int32_t>& sequence : bad_words) {
        require(!sequence.empty(), "bad_words: a sequence must have a token");
    }
    require(num_candidates >= 0, "num_candidates: must be at least 0");
}

}  // namespace outrider
