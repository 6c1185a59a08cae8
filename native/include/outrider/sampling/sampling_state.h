// SamplingState: one sequence's sampling parameters with the token history that they act on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "outrider/sampling/ngram_index.h"
#include "outrider/sampling/noise_ids.h"
#include "outrider/sampling/sampling_params.h"
#include "outrider/sampling/token_counts.h"
#include "outrider/sampling/token_set.h"

namespace outrider {

/// Only `commit`, `truncate`, `forbid` and `translate` change it: a draw that runs ahead along predictions
/// lays them over the state, never into it.
class SamplingState {
  public:
    /// Throws std::invalid_argument for a parameter out of its range or a negative token id.
    SamplingState(SamplingParams params, const int32_t* prompt, size_t prompt_length);

    /// Appends generated tokens to the history; on a negative id throws std::invalid_argument and changes
    /// nothing. `levels` are those after the tokens; without them the level is kept. # levels: [count]
    void commit(const int32_t* token_ids, size_t count, const double* levels = nullptr);
    /// Removes the generated tokens after the first so many; throws std::invalid_argument where there are
    /// not as many.
    void truncate(int64_t num_generated);
    /// Masks token ids at the next position, and there only: `commit` and `truncate` forget them. On a
    /// negative id throws std::invalid_argument and changes nothing.
    void forbid(const int32_t* token_ids, size_t count);

    /// Draws from now on for another vocabulary, in whose words the next token is at `position`.
    void translate(std::shared_ptr<const NoiseIds> noise_ids, int64_t position);

    const SamplingParams& params() const { return params_; }
    /// Kept only where a penalty asks for them.
    const TokenCounts& counts() const { return counts_; }
    /// Prompt and generation, kept only where a rule asks for them.
    const std::vector<int32_t>& history() const { return history_; }
    int64_t prompt_length() const { return prompt_length_; }
    /// Null unless runs of tokens must not repeat.
    const NgramIndex* ngrams() const { return ngrams_ ? &*ngrams_ : nullptr; }
    /// Null unless repetitions lose.
    const NgramIndex* repeats() const { return repeats_ ? &*repeats_ : nullptr; }
    const TokenSet& dry_breakers() const { return dry_breakers_; }
    int64_t num_generated() const { return num_generated_; }
    /// Whether a sampler is steered by the tokens that were drawn before.
    bool feeds_back() const { return params_.steps.feed_back(); }
    /// All that samplers which feed back know of the tokens so far. Mirostat's level is the most bits of
    /// surprise that a token may have (mu in the paper); adaptive-p's is the mean of the drawn tokens'
    /// probabilities, where the later count more.
    double level() const { return levels_.back(); }
    const std::vector<int32_t>& forbidden() const { return forbidden_; }
    /// Tokens of prompt and generation together.
    int64_t length() const { return prompt_length_ + num_generated_; }
    /// The next token's position in the noise: after them, unless it is drawn for another vocabulary.
    int64_t position() const { return length() + position_offset_; }
    /// Null where tokens are drawn as themselves.
    const std::shared_ptr<const NoiseIds>& noise_ids() const { return noise_ids_; }
    /// The largest id in the history and the parameters, -1 where there is none; a vocabulary must be larger.
    int32_t largest_id() const { return largest_id_; }

  private:
    void note_ids(const int32_t* token_ids, size_t count);
    /// To the history, where it is kept.
    void append(const int32_t* token_ids, size_t count);
    /// Each index of the history that there is.
    template <typename Use>
    void for_each_index(Use use) {
        for (std::optional<NgramIndex>* index : {&ngrams_, &repeats_}) {
            if (*index) {
                use(**index);
            }
        }
    }

    SamplingParams params_;
    TokenCounts counts_;
    int64_t prompt_length_;
    int64_t num_generated_ = 0;
    std::vector<int32_t> generated_;  // kept only where a penalty asks for counts
    std::vector<int32_t> history_;
    std::optional<NgramIndex> ngrams_;
    std::optional<NgramIndex> repeats_;
    TokenSet dry_breakers_{{}};
    std::vector<double> levels_;  // the first; where samplers feed back, also that after each generated token
    std::vector<int32_t> forbidden_;
    std::shared_ptr<const NoiseIds> noise_ids_;
    int64_t position_offset_ = 0;
    int32_t largest_id_ = -1;
};

}  // namespace outrider
