#include "outrider/sampling/sampling_state.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "require_range.h"

namespace outrider {

SamplingState::SamplingState(SamplingParams params, const int32_t* prompt, size_t prompt_length)
    : params_(std::move(params)), prompt_length_(static_cast<int64_t>(prompt_length)) {
    params_.validate();
    params_.steps = params_.resolved_steps();
    levels_.push_back(params_.first_level());
    note_ids(prompt, prompt_length);
    note_ids(params_.stop_ids.data(), params_.stop_ids.size());
    note_ids(params_.suppressed_ids.data(), params_.suppressed_ids.size());
    note_ids(params_.begin_suppressed_ids.data(), params_.begin_suppressed_ids.size());
    note_ids(params_.dry_breaker_ids.data(), params_.dry_breaker_ids.size());
    for (const std::vector<int32_t>& sequence : params_.bad_words) {
        note_ids(sequence.data(), sequence.size());
    }
    for (const auto& biased : params_.logit_bias) {
        note_ids(&biased.first, 1);
    }
    if (params_.no_repeat_ngram_size > 0) {
        ngrams_.emplace(params_.no_repeat_ngram_size - 1);
        ngrams_->push({});
    }
    if (params_.dry_multiplier > 0) {
        repeats_.emplace(std::max<int64_t>(params_.dry_allowed_length, 1));
        dry_breakers_ = TokenSet(params_.dry_breaker_ids);
    }
    append(prompt, prompt_length);
    if (params_.repetition_penalty != 1.0f) {  // the only penalty that counts the prompt
        std::for_each(prompt, prompt + prompt_length, [this](int32_t id) { counts_.add_prompt(id); });
    }
}

void SamplingState::commit(const int32_t* token_ids, size_t count, const double* levels) {
    note_ids(token_ids, count);
    for (size_t i = 0; feeds_back() && i < count; ++i) {
        levels_.push_back(levels != nullptr ? levels[i] : level());
    }
    if (params_.penalises()) {
        std::for_each(token_ids, token_ids + count, [this](int32_t id) { counts_.add_generated(id); });
        generated_.insert(generated_.end(), token_ids, token_ids + count);
    }
    append(token_ids, count);
    num_generated_ += static_cast<int64_t>(count);
    forbidden_.clear();
}

void SamplingState::truncate(int64_t num_generated) {
    require_range("num_generated", num_generated, 0, num_generated_);
    while (static_cast<int64_t>(generated_.size()) > num_generated) {
        counts_.remove_generated(generated_.back());
        generated_.pop_back();
    }
    while (!history_.empty() && static_cast<int64_t>(history_.size()) > prompt_length_ + num_generated) {
        for_each_index([this](NgramIndex& index) { index.pop(history_); });
        history_.pop_back();
    }
    if (feeds_back()) {
        levels_.resize(static_cast<size_t>(num_generated) + 1);
    }
    num_generated_ = num_generated;
    forbidden_.clear();
}

void SamplingState::forbid(const int32_t* token_ids, size_t count) {
    note_ids(token_ids, count);
    forbidden_.assign(token_ids, token_ids + count);
}

void SamplingState::translate(std::shared_ptr<const NoiseIds> noise_ids, int64_t position) {
    constexpr int64_t kLast = int64_t{1} << 62;  // so that the history can still grow
    require_range("position", position, 0, kLast);
    noise_ids_ = std::move(noise_ids);
    position_offset_ = position - length();
}

void SamplingState::append(const int32_t* token_ids, size_t count) {
    for (size_t i = 0; params_.follows_history() && i < count; ++i) {
        history_.push_back(token_ids[i]);
        for_each_index([this](NgramIndex& index) { index.push(history_); });
    }
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
