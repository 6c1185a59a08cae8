// SamplingState: one sequence's sampling parameters and the token history that they apply to.
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

/// Only `commit`, `truncate`, `forbid` and `translate` change it: a draw along predictions sees them as
/// further history without changing the state.
class SamplingState {
  public:
    /// Throws std::invalid_argument for a parameter out of range or a negative token id.
    SamplingState(SamplingParams params, const int32_t* prompt, size_t prompt_length);

    /// Appends generated tokens to the history; on a negative id throws std::invalid_argument and changes
    /// nothing. `levels` are the levels after each token; without them the level is kept. # levels: [count]
    void commit(const int32_t* token_ids, size_t count, const double* levels = nullptr);
    /// Removes the generated tokens after the first `num_generated`; throws std::invalid_argument if there
    /// are fewer.
    void truncate(int64_t num_generated);
    /// Masks token ids at the next position only: `commit` and `truncate` clear them. On a negative id throws
    /// std::invalid_argument and changes nothing.
    void forbid(const int32_t* token_ids, size_t count);

    /// Draws from now on with the noise of another vocabulary, in whose tokens the next one is at `position`.
    void translate(std::shared_ptr<const NoiseIds> noise_ids, int64_t position);

    const SamplingParams& params() const { return params_; }
    /// Kept only if a penalty needs them.
    const TokenCounts& counts() const { return counts_; }
    /// The tokens of prompt and generation, kept only if a rule needs them.
    const std::vector<int32_t>& history() const { return history_; }
    int64_t prompt_length() const { return prompt_length_; }
    /// Null unless no_repeat_ngram_size is set.
    const NgramIndex* ngrams() const { return ngrams_ ? &*ngrams_ : nullptr; }
    /// Null unless DRY is on.
    const NgramIndex* repeats() const { return repeats_ ? &*repeats_ : nullptr; }
    const TokenSet& dry_breakers() const { return dry_breakers_; }
    int64_t num_generated() const { return num_generated_; }
    /// Whether any sampler depends on the tokens drawn before.
    bool feeds_back() const { return params_.steps.feed_back(); }
    /// The state of the samplers that feed back. For Mirostat it is the most bits of surprise that a token
    /// may have (mu in the paper); for adaptive-p the mean of the drawn tokens' probabilities, weighted
    /// towards the latest.
    double level() const { return levels_.back(); }
    const std::vector<int32_t>& forbidden() const { return forbidden_; }
    /// The number of tokens of prompt and generation together.
    int64_t length() const { return prompt_length_ + num_generated_; }
    /// The next token's position in the noise: `length()`, unless it is drawn with another vocabulary's
    /// noise.
    int64_t position() const { return length() + position_offset_; }
    /// Null if tokens are drawn with their own noise.
    const std::shared_ptr<const NoiseIds>& noise_ids() const { return noise_ids_; }
    /// The largest id in the history and the parameters, -1 if there is none; a vocabulary must be larger.
    int32_t largest_id() const { return largest_id_; }

  private:
    void note_ids(const int32_t* token_ids, size_t count);
    /// Appends to the history, if it is kept.
    void append(const int32_t* token_ids, size_t count);
    /// Calls `use` with each n-gram index that exists.
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
    std::vector<int32_t> generated_;  // kept only if a penalty needs counts
    std::vector<int32_t> history_;
    std::optional<NgramIndex> ngrams_;
    std::optional<NgramIndex> repeats_;
    TokenSet dry_breakers_{{}};
    std::vector<double> levels_;  // the first; if samplers feed back, also the one after each generated token
    std::vector<int32_t> forbidden_;
    std::shared_ptr<const NoiseIds> noise_ids_;
    int64_t position_offset_ = 0;
    int32_t largest_id_ = -1;
};

}  // namespace outrider
