// SamplingRow: one row of logits with the history that its draw sees. RowSample: the result of its draw.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "outrider/sampling/sampler.h"
#include "sampling/dry.h"
#include "sampling/history_rules.h"
#include "sampling/penalty.h"
#include "sampling/row_history.h"
#include "sampling/token_mask.h"

namespace outrider {

struct SamplingRow {
    const float* logits;  // [vocab_size], in the memory of the sampler's device
    int vocab_size;
    const SamplingState* state;
    const int32_t* predictions;  // tokens after the state's history
    int num_predictions;
    const uint32_t* mask;  // the tokens that may be drawn, in host memory; null for all
    double level;          // level from which the feedback samplers start
    bool wants_margin = false;
    const float* negative_logits = nullptr;  // like `logits`; null without guidance

    const SamplingParams& params() const { return state->params(); }
    int64_t num_generated() const { return state->num_generated() + num_predictions; }
    bool masks_stop_ids() const {
        return num_generated() < params().min_tokens && !params().stop_ids.empty();
    }
    bool masks_forbidden() const { return num_predictions == 0 && !state->forbidden().empty(); }
    bool has_rules() const {
        return !params().suppressed_ids.empty() || !params().begin_suppressed_ids.empty() ||
               !params().bad_words.empty() || state->ngrams() != nullptr;
    }
    bool masks() const {
        return masks_stop_ids() || masks_forbidden() || has_rules() || state->noise_ids() != nullptr;
    }
    RowHistory history() const { return {state->history(), predictions, num_predictions}; }
    /// Calls `mask` with every masked id, some of them twice, and with the number of draws, this one
    /// included, for which it stays masked.
    template <typename Mask>
    void for_each_masked(Mask mask) const {
        for_each_forbidden(mask);
        if (state->noise_ids() != nullptr) {
            for (int32_t id = 0; id < vocab_size; ++id) {
                if (state->noise_ids()->ids[id] == kNoPartner) {
                    mask(id, std::numeric_limits<int64_t>::max());
                }
            }
        }
    }
    /// The same without ids that have no partner in another vocabulary.
    template <typename Mask>
    void for_each_forbidden(Mask mask) const {
        if (masks_stop_ids()) {
            const int64_t num_draws = params().min_tokens - num_generated();
            for (const int32_t id : params().stop_ids) {
                mask(id, num_draws);
            }
        }
        if (masks_forbidden()) {
            for (const int32_t id : state->forbidden()) {
                mask(id, 1);
            }
        }
        if (has_rules()) {
            for_each_ruled_out(mask);
        }
    }
    /// Ids that the request suppresses, or that must not follow the tokens so far.
    template <typename Mask>
    void for_each_ruled_out(Mask mask) const {
        for (const int32_t id : params().suppressed_ids) {
            mask(id, std::numeric_limits<int64_t>::max());
        }
        if (num_generated() == 0) {
            for (const int32_t id : params().begin_suppressed_ids) {
                mask(id, 1);
            }
        }
        for_each_end_of(params().bad_words, history(), [&](int32_t id) { mask(id, 1); });
        if (state->ngrams() != nullptr) {
            const RowHistory tokens = history();
            for_each_repeat(tokens, *state->ngrams(), std::numeric_limits<size_t>::max(),
                            [&](int64_t place) { mask(tokens[place], 1); });
        }
    }
    /// Calls `subtract` with each token that DRY penalises, and its penalty.
    template <typename Subtract>
    void for_each_repeating(Subtract subtract) const {
        if (state->repeats() != nullptr) {
            outrider::for_each_repeating(history(), *state->repeats(), state->dry_breakers(), params(),
                                         subtract);
        }
    }
    /// Calls `visit` with each token that the penalties count, and its counts; if a token is visited more
    /// than once, the last call is valid. With a window, tokens before it are not counted.
    template <typename Visit>
    void for_each_counted(Visit visit) const {
        if (params().has_penalty_window()) {
            for (const auto& [id, counted] : count_window(history(), state->prompt_length(), params())) {
                visit(id, counted);
            }
            return;
        }
        const TokenCounts& counts = state->counts();
        for (const auto& [id, generated] : counts.entries()) {
            visit(id, Counted::whole(generated));
        }
        const int32_t* end = predictions + num_predictions;
        for (const int32_t* id = predictions; id != end; ++id) {
            const auto predicted = static_cast<int>(std::count(predictions, end, *id));
            visit(*id, Counted::whole(counts.generated(*id) + predicted));
        }
    }
    /// Whether the row starts from the level after the other row's token, which is the row's last prediction.
    bool follows(const SamplingRow& other) const {
        return params().steps.feed_back() && other.state == state && other.predictions == predictions &&
               other.num_predictions + 1 == num_predictions;
    }
    int64_t position() const { return state->position() + num_predictions; }
    /// The token that a forced row describes; -1 if the row draws one.
    int32_t forced_id() const { return params().forced ? predictions[num_predictions] : -1; }
};

struct RowSample {
    int32_t token_id = -1;
    SampleStatus status = SampleStatus::drawn;
    float raw_logprob = std::nanf("");
    float logprob = std::nanf("");
    int32_t rank = 0;
    float entropy = std::nanf("");
    double level = std::nan("");   // after the token, if samplers feed back
    float margin = std::nanf("");  // by which the draw beat the runner-up; NaN if not wanted or not drawn
    std::vector<Candidate> candidates;
};

}  // namespace outrider
