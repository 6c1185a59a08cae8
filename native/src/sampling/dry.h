// DRY, "don't repeat yourself": a token that would continue a repetition is penalised more the longer the
// repetition is. (github.com/oobabooga/text-generation-webui/pull/5677; llama.cpp's llama_sampler_dry.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "outrider/sampling/sampling_params.h"
#include "outrider/sampling/token_set.h"
#include "sampling/history_rules.h"

namespace outrider {

/// Limits that ordinary texts never reach, but that bound the cost of hostile ones: a repetition is counted
/// at most this many tokens beyond the allowed length, and only this many of the latest repetitions are
/// examined.
constexpr int64_t kMostBeyondAllowed = 64;
constexpr size_t kMostRepeats = 1024;

/// The penalty of the token that would continue a repetition of `length` tokens.
inline float dry_penalty(const SamplingNumbers& numbers, int64_t length) {
    constexpr double kMost = 1e30;
    double penalty = numbers.dry_multiplier;
    for (int64_t beyond = length - numbers.dry_allowed_length; beyond > 0 && penalty < kMost; --beyond) {
        penalty *= numbers.dry_base;
    }
    return static_cast<float>(std::min(penalty, kMost));
}

/// The number of last tokens that a repetition may cover: those within the window and after the last breaker.
inline int64_t longest_repeat(const RowHistory& history, const TokenSet& breakers, int64_t first,
                              int64_t most) {
    int64_t length = 0;
    while (length < most && history.length() - length > first &&
           !breakers.contains(history[history.length() - 1 - length])) {
        ++length;
    }
    return length;
}

/// Calls `subtract` once for each token that would continue a repetition, with the token's penalty.
template <typename Subtract>
void for_each_repeating(const RowHistory& history, const NgramIndex& index, const TokenSet& breakers,
                        const SamplingNumbers& numbers, Subtract subtract) {
    if (history.length() < index.size()) {
        return;
    }
    const int64_t window = numbers.dry_penalty_last_n > 0 ? numbers.dry_penalty_last_n : history.length();
    const int64_t first = std::max<int64_t>(0, history.length() - window);
    const int64_t most = longest_repeat(history, breakers, first, index.size() + kMostBeyondAllowed);
    std::unordered_map<int32_t, int64_t> longest;
    if (most >= index.size()) {
        for_each_repeat(history, index, kMostRepeats, [&](int64_t place) {
            const int64_t length = history.common_length(place, std::min(most, place - first));
            if (length >= index.size()) {
                int64_t& known = longest[history[place]];
                known = std::max(known, length);
            }
        });
    }
    for (const auto& [id, length] : longest) {
        if (!breakers.contains(id)) {
            subtract(id, dry_penalty(numbers, length));
        }
    }
}

}  // namespace outrider
