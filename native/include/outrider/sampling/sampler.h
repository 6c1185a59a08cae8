// Sampler: logits and sampling states in, token ids and asked records out.
//
// Each row goes through these steps, in this order, from the model's logits, or where its sequence is guided
// from those that guidance makes of them and of the same row after the negative prompt:
//   1. penalties on the model's logits: repetition (tokens of prompt and generation: a logit above 0 is
//      divided by the penalty, any other multiplied), then minus frequency * count, then minus presence
//      (both for generated tokens only)
//   2. logit bias added
//   3. masked to minus infinity: stop ids while fewer than min_tokens are generated, the state's forbidden
//      tokens (at the next position only), tokens without a partner in the vocabulary that the row is drawn
//      for, and tokens that the row's mask forbids
//      -> the *processed logits*
//   4. the samplers that are on, in the request's order or that of SamplerStep. Temperature, top-k (keeps the
//      k most probable tokens), top-p (keeps the most probable tokens whose cumulative probability, of what
//      top-k left, reaches p) and min-p (keeps tokens at least p times as probable as the best) have a faster
//      path if no other is on, with the same bits. The headers in src/sampling/steps describe the others.
//      -> the *distribution* (ties are cut by lowest id wherever the order by value is)
//   5. the draw: argmax of value + Gumbel noise in float32, the lowest id winning ties
// Below kGreedyTemperature the draw is the argmax of the processed logits, the lowest id winning ties, and
// the distribution is theirs at T = 1, whole.
//
// A forced sequence's tokens are known ("teacher forcing"): row j describes prediction j instead of a
// drawn token, and there is no row after the last prediction.
//
// The draw is exact for the distribution (Gumbel-max), and the noise depends on seed, position and token id
// only, so that two models with the same seed pick the same token nearly as often as any coupling allows
// (Daliri, Musco, Suresh, "Coupling without Communication and Drafter-Invariant Speculative Decoding",
// arXiv 2408.07978).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "outrider/decoder/logits.h"
#include "outrider/decoder/next_rows.h"
#include "outrider/device/device.h"
#include "outrider/sampling/sampling_state.h"

namespace outrider {

class RowSampler;

enum class SampleStatus : uint8_t {
    drawn = 0,
    no_candidate = 1,    // every token is masked
    invalid_logits = 2,  // NaN or plus infinity, in the model's logits or in what the steps make of them
};

struct Candidate {
    int32_t token_id;
    float raw_logprob;  // under the model's logits at T = 1
    float logprob;      // in the distribution; minus infinity where truncated away
};

/// One entry per row of logits.
struct Samples {
    std::vector<int32_t> token_ids;  // -1 where none was drawn
    std::vector<SampleStatus> status;
    std::vector<float> raw_logprobs;  // NaN where not asked or not drawn
    std::vector<float> logprobs;      // NaN where not asked or not drawn
    /// Ranks among the model's logits, 1 for the greatest, ties by lowest id; 0 where not asked or not drawn.
    std::vector<int32_t> ranks;
    /// Entropies of the softmax of the model's logits, in nats; NaN where not asked or not drawn.
    std::vector<float> entropies;
    /// Levels after the tokens (SamplingState::level), for `commit`; NaN where no sampler feeds back, or
    /// none was drawn.
    std::vector<double> levels;
    /// The asked number of best processed logits, best first; tokens at minus infinity never.
    std::vector<std::vector<Candidate>> candidates;
};

/// Which tokens may be drawn in each row of a sequence: bit i % 32 of word i / 32 stands for token i.
struct TokenMasks {
    const uint32_t* words = nullptr;  // [rows, num_words], memory of the host; null where all may be drawn
    int64_t num_words = 0;            // at least a bit for each token of the vocabulary

    const uint32_t* row(int64_t index) const {
        return words == nullptr ? nullptr : words + index * num_words;
    }
};

/// The rows of one sequence, row j seeing the first j predictions as history: first_row ... num_predictions,
/// the last of them only where a token is drawn from it. Where samplers feed back, a row's level is the one
/// after the token of the row before it, which is the prediction wherever the row is used.
struct SequenceRows {
    const SamplingState* state;
    const int32_t* predictions;
    int num_predictions;
    int first_row = 0;
    TokenMasks masks{};  // of these rows

    int end_row() const { return num_predictions + (state->params().forced ? 0 : 1); }
    int num_rows() const { return end_row() - first_row; }
    /// Of the logits: after those of all sequences come, in the same order, the guided ones' negative rows.
    int num_logits() const { return state->params().guides() ? 2 * num_rows() : num_rows(); }
};

/// A row's result depends on its own logits, state and predictions only, to the bit.
class Sampler {
  public:
    explicit Sampler(std::shared_ptr<Device> device);
    ~Sampler();

    const std::shared_ptr<Device>& device() const { return device_; }

    /// Makes room for rows of so many logits, so that no later sample allocates memory of the device. Throws
    /// std::invalid_argument for fewer than 1, or for more than can be drawn from.
    void reserve(int vocab_size);

    /// Throws std::invalid_argument where the rows of the sequences are not as many as those of the logits, a
    /// first row is not one of its sequence, a token id is outside the vocabulary, a mask is too short for
    /// it, the logits are another device's, or a sequence is guided where the device does not.
    Samples sample(const Logits& logits, const std::vector<SequenceRows>& sequences);

    /// Draws from each row of the logits, one of each sequence, and then pass by pass from what `pass` puts
    /// in their place, without a look at what has been drawn: row i draws `counts[i]` times, which falls from
    /// row to row, and each draw goes into its row of `next`, one position on; after its last it is
    /// inactive there, as it is after a draw that ends it early (`least_chances`, see RunAhead). `pass` is called with
    /// the number of rows, the first ones, that draw again. Returns each row's tokens, up to a draw that
    /// fails. A row with a mask, or without a place in `next`, draws once. Throws as `sample` does. No
    /// sequence is guided: the passes compute one row of each.
    std::vector<std::vector<int32_t>> sample_ahead(
        const Logits& logits, const std::vector<SequenceRows>& sequences, const std::vector<int>& counts,
        const std::vector<double>& least_chances, const NextRows& next, const std::function<void(int)>& pass);

  private:
    void require_usable(const Logits& logits) const;

    std::shared_ptr<Device> device_;
    std::mutex callers_;  // one call at a time: the row sampler's scratch is shared
    std::unique_ptr<RowSampler> row_sampler_;
};

}  // namespace outrider
