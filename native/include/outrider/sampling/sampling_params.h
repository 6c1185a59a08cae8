// SamplingParams: the sampling parameters of one sequence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "outrider/device/host_device.h"

namespace outrider {

/// Below this temperature the draw is the plain argmax: the noise could only decide near-ties.
constexpr float kGreedyTemperature = 1e-5f;

/// The steps between the processed logits and the distribution, in the order in which they run if a request
/// does not give another one.
enum class SamplerStep : uint8_t {
    top_n_sigma,
    smoothing,
    temperature,
    top_k,
    top_p,
    min_p,
    top_a,
    tail_free,
    typical,
    epsilon,
    eta,
    xtc,
    skew,
    mirostat,
    adaptive_p,
};

/// The names of the steps, in that order.
constexpr const char* kSamplerNames[] = {
    "top_n_sigma", "smoothing", "temperature", "top_k", "top_p", "min_p",    "top_a",      "tail_free",
    "typical",     "epsilon",   "eta",         "xtc",   "skew",  "mirostat", "adaptive_p",
};
constexpr int kNumSamplerSteps = sizeof(kSamplerNames) / sizeof(*kSamplerNames);
static_assert(static_cast<int>(SamplerStep::adaptive_p) == kNumSamplerSteps - 1, "each step has a name");

/// Whether a step depends on the tokens drawn before it and on their probabilities.
constexpr bool feeds_back(SamplerStep step) {
    return step == SamplerStep::mirostat || step == SamplerStep::adaptive_p;
}

/// The steps that a row goes through: plain memory that a device's kernels read directly.
struct SamplerSteps {
    SamplerStep steps[kNumSamplerSteps] = {};
    int32_t count = 0;
    bool in_use = false;  // else the row goes through temperature, top-k, top-p and min-p only

    /// Whether any step ranks all tokens.
    bool ranks() const {
        return std::any_of(steps, steps + count, [](SamplerStep step) {
            return step == SamplerStep::tail_free || step == SamplerStep::skew ||
                   step == SamplerStep::mirostat;
        });
    }
    /// Whether any step depends on the tokens drawn before.
    bool feed_back() const {
        return std::any_of(steps, steps + count, [](SamplerStep step) { return feeds_back(step); });
    }
};

/// The numeric sampling parameters: plain memory that a device's kernels read directly.
struct SamplingNumbers {
    float temperature = 1.0f;
    int64_t top_k = 0;              // 0: off
    double top_p = 1.0;             // 1: off
    double min_p = 0.0;             // 0: off
    double top_n_sigma = 0.0;       // 0: off
    double smoothing_factor = 0.0;  // 0: off
    double smoothing_curve = 1.0;
    double dynatemp_range = 0.0;  // 0: off
    double dynatemp_exponent = 1.0;
    double top_a = 0.0;            // 0: off
    double tfs_z = 1.0;            // 1: off
    double typical_p = 1.0;        // 1: off
    double epsilon_cutoff = 0.0;   // 0: off
    double eta_cutoff = 0.0;       // 0: off
    double xtc_probability = 0.0;  // 0: off
    double xtc_threshold = 0.1;
    double skew = 0.0;          // 0: off
    int64_t mirostat_mode = 0;  // 0: off
    double mirostat_tau = 5.0;  // bits
    double mirostat_eta = 0.1;
    double adaptive_target = -1.0;  // below 0: off
    double adaptive_decay = 0.9;
    float repetition_penalty = 1.0f;
    float frequency_penalty = 0.0f;
    float presence_penalty = 0.0f;
    int64_t penalty_last_n = 0;        // 0: all
    int64_t penalty_decay = 0;         // length of the window before those tokens in which the penalties fade
    int64_t no_repeat_ngram_size = 0;  // 0: off
    double dry_multiplier = 0.0;       // 0: off
    double dry_base = 1.75;
    int64_t dry_allowed_length = 2;
    int64_t dry_penalty_last_n = 0;  // 0: all
    SamplerSteps steps{};            // derived from the numbers and the requested order

    /// The level of a feedback sampler before the first draw.
    double first_level() const { return mirostat_mode != 0 ? 2 * mirostat_tau : adaptive_target; }
    OUTRIDER_HOST_DEVICE bool greedy() const { return temperature < kGreedyTemperature; }
    bool penalises() const {
        return repetition_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f;
    }
    OUTRIDER_HOST_DEVICE bool has_top_k(int64_t vocab_size) const { return top_k > 0 && top_k < vocab_size; }
    /// Whether top-k or top-p cuts a row off after some candidate.
    OUTRIDER_HOST_DEVICE bool cuts(int64_t vocab_size) const {
        return !greedy() && !steps.in_use && (has_top_k(vocab_size) || top_p < 1);
    }
    /// Whether any of top-k, top-p and min-p applies to a row.
    OUTRIDER_HOST_DEVICE bool truncates(int64_t vocab_size) const {
        return cuts(vocab_size) || (!greedy() && !steps.in_use && min_p > 0);
    }
    /// Whether a step has any effect with these parameters.
    bool is_on(SamplerStep step) const {
        switch (step) {
            case SamplerStep::top_n_sigma:
                return top_n_sigma > 0;
            case SamplerStep::smoothing:
                return smoothing_factor > 0;
            case SamplerStep::temperature:
                return temperature != 1 || dynatemp_range > 0;
            case SamplerStep::top_k:
                return top_k > 0;
            case SamplerStep::top_p:
                return top_p < 1;
            case SamplerStep::min_p:
                return min_p > 0;
            case SamplerStep::top_a:
                return top_a > 0;
            case SamplerStep::tail_free:
                return tfs_z < 1;
            case SamplerStep::typical:
                return typical_p < 1;
            case SamplerStep::epsilon:
                return epsilon_cutoff > 0;
            case SamplerStep::eta:
                return eta_cutoff > 0;
            case SamplerStep::xtc:
                return xtc_probability > 0;
            case SamplerStep::skew:
                return skew != 0;
            case SamplerStep::mirostat:
                return mirostat_mode != 0;
            case SamplerStep::adaptive_p:
                return adaptive_target >= 0;
        }
        return false;
    }
};

/// The allowed range of a number; NaN and the infinities are never allowed.
struct NumberRange {
    double least = std::numeric_limits<float>::lowest();
    double most = std::numeric_limits<float>::max();
    bool excludes_least = false;
};

/// Calls `visit` with the name, the member and the range of each number; bindings and validation iterate with
/// it.
template <typename Numbers, typename Visit>
void for_each_number(Numbers& numbers, Visit visit) {
    constexpr double kMost = std::numeric_limits<float>::max();
    visit("temperature", numbers.temperature, NumberRange{0, kMost});
    visit("top_k", numbers.top_k, NumberRange{0, 0x1p63});
    visit("top_p", numbers.top_p, NumberRange{0, 1, true});
    visit("min_p", numbers.min_p, NumberRange{0, 1});
    visit("top_n_sigma", numbers.top_n_sigma, NumberRange{0, kMost});
    visit("smoothing_factor", numbers.smoothing_factor, NumberRange{0, kMost});
    visit("smoothing_curve", numbers.smoothing_curve, NumberRange{1, 3});
    visit("dynatemp_range", numbers.dynatemp_range, NumberRange{0, kMost});
    visit("dynatemp_exponent", numbers.dynatemp_exponent, NumberRange{0, kMost});
    visit("top_a", numbers.top_a, NumberRange{0, 1});
    visit("tfs_z", numbers.tfs_z, NumberRange{0, 1, true});
    visit("typical_p", numbers.typical_p, NumberRange{0, 1, true});
    visit("epsilon_cutoff", numbers.epsilon_cutoff, NumberRange{0, 1});
    visit("eta_cutoff", numbers.eta_cutoff, NumberRange{0, 1});
    visit("xtc_probability", numbers.xtc_probability, NumberRange{0, 1});
    visit("xtc_threshold", numbers.xtc_threshold, NumberRange{0, 1});
    visit("skew", numbers.skew, NumberRange{-10, 10});
    visit("mirostat_mode", numbers.mirostat_mode, NumberRange{0, 2});
    visit("mirostat_tau", numbers.mirostat_tau, NumberRange{0, kMost});
    visit("mirostat_eta", numbers.mirostat_eta, NumberRange{0, kMost});
    visit("adaptive_target", numbers.adaptive_target, NumberRange{-1, 1});
    visit("adaptive_decay", numbers.adaptive_decay, NumberRange{0, 0.99});
    visit("repetition_penalty", numbers.repetition_penalty, NumberRange{0, kMost, true});
    visit("frequency_penalty", numbers.frequency_penalty, NumberRange{});
    visit("presence_penalty", numbers.presence_penalty, NumberRange{});
    visit("penalty_last_n", numbers.penalty_last_n, NumberRange{0, 0x1p63});
    visit("penalty_decay", numbers.penalty_decay, NumberRange{0, 0x1p63});
    visit("dry_multiplier", numbers.dry_multiplier, NumberRange{0, kMost});
    visit("dry_base", numbers.dry_base, NumberRange{1, kMost});
    visit("dry_allowed_length", numbers.dry_allowed_length, NumberRange{0, 0x1p63});
    visit("dry_penalty_last_n", numbers.dry_penalty_last_n, NumberRange{0, 0x1p63});
    visit("no_repeat_ngram_size", numbers.no_repeat_ngram_size, NumberRange{0, 0x1p63});
}

struct SamplingParams : SamplingNumbers {
    uint64_t seed = 0;
    std::vector<SamplerStep> samplers;  // in this order; empty: all, in that of SamplerStep
    std::vector<std::pair<int32_t, float>>
        logit_bias;  // (token id, added to its logit); minus infinity bans it
    int64_t min_tokens = 0;
    std::vector<int32_t> stop_ids;                // masked while fewer than min_tokens are generated
    std::vector<int32_t> suppressed_ids;          // always masked
    std::vector<int32_t> begin_suppressed_ids;    // masked before the first generated token
    std::vector<std::vector<int32_t>> bad_words;  // token sequences that must not be generated
    std::vector<int32_t> dry_breaker_ids;         // tokens that end a repetition for DRY
    bool logprobs = false;
    int64_t num_candidates = 0;
    bool rank = false;
    bool entropy = false;
    double guidance_scale = 1.0;  // 1: off; else a row also has logits after a negative prompt
    bool forced = false;          // rows describe the predictions, and no token is drawn

    /// Throws std::invalid_argument naming the first field out of its range.
    void validate() const;
    bool guides() const { return guidance_scale != 1; }
    bool has_penalty_window() const { return penalises() && penalty_last_n > 0; }
    /// Whether a row needs the token history and not only its counts; a device then draws one of its tokens
    /// at a time.
    bool follows_history() const {
        return has_penalty_window() || no_repeat_ngram_size > 0 || !bad_words.empty() || dry_multiplier > 0;
    }
    /// Derives `steps` from the other parameters.
    SamplerSteps resolved_steps() const;
};

}  // namespace outrider
