// Sampler: draws token ids from logits, given sampling states, with the statistics that they request.
//
// Each row goes through these steps, in this order, starting from the model's logits; if its sequence is
// guided, from the combination of these logits with those of the same row after the negative prompt:
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
//      -> the *distribution* (among equal values, the lower ids are kept)
//   5. the draw: argmax of value + Gumbel noise in float32, the lowest id winning ties
// Below kGreedyTemperature the draw is the argmax of the processed logits, the lowest id winning ties, and
// the distribution is their softmax at T = 1, untruncated.
//
// A forced sequence's tokens are known ("teacher forcing"): row j describes prediction j instead of a drawn
// token, and there is no row after the last prediction.
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
#include "outrider/device/device.h"
#include "outrider/device/next_rows.h"
#include "outrider/sampling/sampling_state.h"

namespace outrider {

class RowSampler;

enum class SampleStatus : uint8_t {
    drawn = 0,
    no_candidate = 1,    // every token is masked
    invalid_logits = 2,  // NaN or plus infinity, in the model's logits or after the steps
};

struct Candidate {
    int32_t token_id;
    float raw_logprob;  // under the model's logits at T = 1
    float logprob;      // in the distribution; minus infinity if truncated away
};

/// One entry per row of logits.
struct Samples {
    std::vector<int32_t> token_ids;  // -1 if none was drawn
    std::vector<SampleStatus> status;
    std::vector<float> raw_logprobs;  // NaN if not requested or not drawn
    std::vector<float> logprobs;      // NaN if not requested or not drawn
    /// Ranks among the model's logits, 1 for the greatest, ties by lowest id; 0 if not requested or not
    /// drawn.
    std::vector<int32_t> ranks;
    /// Entropies of the softmax of the model's logits, in nats; NaN if not requested or not drawn.
    std::vector<float> entropies;
    /// Levels after the tokens (SamplingState::level), for `commit`; NaN if no sampler feeds back, or no
    /// token was drawn.
    std::vector<double> levels;
    /// The requested number of tokens with the greatest processed logits, best first; never tokens at minus
    /// infinity.
    std::vector<std::vector<Candidate>> candidates;
};

/// The tokens that may be drawn in each row of a sequence: bit i % 32 of word i / 32 stands for token i.
struct TokenMasks {
    const uint32_t* words = nullptr;  // [rows, num_words], host memory; null if all tokens may be drawn
    int64_t num_words = 0;            // at least one bit for each token of the vocabulary

    const uint32_t* row(int64_t index) const {
        return words == nullptr ? nullptr : words + index * num_words;
    }
};

/// The rows of one sequence: row j sees the first j predictions as history, for j = first_row ...
/// num_predictions; the last row exists only if a token is drawn from it. If samplers feed back, a row starts
/// from the level after the token of the row before it; a row's result is used only if that token equals the
/// prediction.
struct SequenceRows {
    const SamplingState* state;
    const int32_t* predictions;
    int num_predictions;
    int first_row = 0;
    TokenMasks masks{};  // one row for each of these rows

    int end_row() const { return num_predictions + (state->params().forced ? 0 : 1); }
    int num_rows() const { return end_row() - first_row; }
    /// The number of logits rows: the guided sequences' negative rows follow the rows of all sequences, in
    /// the same order.
    int num_logits() const { return state->params().guides() ? 2 * num_rows() : num_rows(); }
};

/// A row's result depends only on its own logits, state and predictions, to the bit.
class Sampler {
  public:
    explicit Sampler(std::shared_ptr<Device> device);
    ~Sampler();

    const std::shared_ptr<Device>& device() const { return device_; }

    /// Allocates memory for rows of so many logits, so that no later sample allocates device memory. Throws
    /// std::invalid_argument if `vocab_size` is below 1 or beyond the limit.
    void reserve(int vocab_size);

    /// Throws std::invalid_argument if the sequences need another number of logits rows, a first row is out
    /// of range, a token id is outside the vocabulary, a mask is too short for it, the logits belong to
    /// another device, or a sequence is guided and the device does not support that.
    Samples sample(const Logits& logits, const std::vector<SequenceRows>& sequences);

    /// Draws from each row of the logits, one row per sequence, and then, pass by pass, from the logits that
    /// `pass` writes to the same memory, without waiting for the drawn tokens. Row i draws `counts[i]` times;
    /// the counts must not increase from row to row. Each draw writes its token into its row of `next`, one
    /// position later; after its last draw, or a draw that ends it early (`least_chances`, see RunAhead), a
    /// row is inactive there. `pass` is called with the number of rows that draw again, which are the first
    /// ones. Returns each row's tokens, up to a draw that fails. A row with a mask, or without a place in
    /// `next`, draws once. Throws as `sample` does. No sequence may be guided: the passes compute one row per
    /// sequence.
    std::vector<std::vector<int32_t>> sample_ahead(
        const Logits& logits, const std::vector<SequenceRows>& sequences, const std::vector<int>& counts,
        const std::vector<double>& least_chances, const NextRows& next, const std::function<void(int)>& pass);

  private:
    void require_usable(const Logits& logits) const;

    std::shared_ptr<Device> device_;
    std::mutex callers_;  // one call at a time: calls share the row sampler's scratch memory
    std::unique_ptr<RowSampler> row_sampler_;
};

}  // namespace outrider
