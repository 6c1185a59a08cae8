// SamplingRow: one row of logits with the history that its draw sees. RowSample: what is drawn from it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "outrider/sampling/sampler.h"
#include "sampling/token_mask.h"

namespace outrider {

struct SamplingRow {
    const float* logits;  // [vocab_size], memory of the sampler's device
    int vocab_size;
    const SamplingState* state;
    const int32_t* predictions;  // laid over the state's history
    int num_predictions;
    const uint32_t* mask;  // of the tokens that may be drawn, memory of the host; null for all

    const SamplingParams& params() const { return state->params(); }
    int64_t num_generated() const { return state->num_generated() + num_predictions; }
    bool masks_stop_ids() const {
        return num_generated() < params().min_tokens && !params().stop_ids.empty();
    }
    bool masks_forbidden() const { return num_predictions == 0 && !state->forbidden().empty(); }
    bool masks() const { return masks_stop_ids() || masks_forbidden() || state->noise_ids() != nullptr; }
    /// Calls `mask` with every masked id, some of them twice, and the number of draws, with this one, in
    /// which it stays masked.
    template <typename Mask>
    void for_each_masked(Mask mask) const {
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
        if (state->noise_ids() != nullptr) {
            for (int32_t id = 0; id < vocab_size; ++id) {
                if (state->noise_ids()->ids[id] == kNoPartner) {
                    mask(id, std::numeric_limits<int64_t>::max());
                }
            }
        }
    }
    int64_t position() const { return state->position() + num_predictions; }
    /// The token that the row tells of; -1 where it draws one.
    int32_t forced_id() const { return params().forced ? predictions[num_predictions] : -1; }
};

struct RowSample {
    int32_t token_id = -1;
    SampleStatus status = SampleStatus::drawn;
    float raw_logprob = std::nanf("");
    float logprob = std::nanf("");
    int32_t rank = 0;
    float entropy = std::nanf("");
    std::vector<Candidate> candidates;
};

}  // namespace outrider
