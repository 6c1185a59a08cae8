#include "outrider/sampling_state.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace outrider {

SamplingState::SamplingState(SamplingParams params, const int32_t* prompt, size_t prompt_length)
    : params_(std::move(params)), prompt_length_(static_cast<int64_t>(prompt_length)) {
    params_.validate();
    note_ids(prompt, prompt_length);
    note_ids(params_.stop_ids.data(), params_.stop_ids.size());
    for (const auto& biased : params_.logit_bias) {
        note_ids(&biased.first, 1);
    }
    if (params_.repetition_penalty != 1.0f) {  // the only one that looks at the prompt
        std::for_each(prompt, prompt + prompt_length, [this](int32_t id) { counts_.add_prompt(id); });
    }
}

void SamplingState::commit(const int32_t* token_ids, size_t count) {
    note_ids(token_ids, count);
    if (params_.penalises()) {
        std::for_each(token_ids, token_ids + count, [this](int32_t id) { counts_.add_generated(id); });
    }
    num_generated_ += static_cast<int64_t>(count);
}

void SamplingState::note_ids(const int32_t* token_ids, size_t count) {
    if (count == 0) {
        return;
    }
    const auto [least, largest] = std::minmax_element(token_ids, token_ids + count);
    if (*least < 0) {
        throw std::invalid_argument("token ids must not be negative");
    }
    largest_id_ = std::max(largest_id_, *largest);
}

}  // namespace outrider
