// DrawBatch: a batch of rows to draw from, as kernels see it.
#pragma once

#include <cstdint>
#include <limits>
#include <tuple>

#include "cuda/sampling/kernels/edit.h"
#include "outrider/device/host_device.h"
#include "outrider/sampling/noise_ids.h"
#include "outrider/sampling/sampling_params.h"
#include "sampling/host/row/selection.h"
#include "sampling/host/row/softmax.h"
#include "sampling/portable_math.h"
#include "sampling/sampling_row.h"

namespace outrider::cuda {

constexpr int kThreadsOfRow = 256;    // of a block that reads a whole row
constexpr int kThreadsOfValues = 64;  // of one that reads a block of its values
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The parameters of a row.
struct DrawRow {
    const float* logits;  // [vocab_size]
    uint64_t seed;
    int64_t position;
    SamplingNumbers numbers;
    bool logprobs;
    int64_t num_candidates;  // at most the size of the vocabulary
    bool rank;
    bool entropy;
    int32_t forced_id;         // -1: a token is drawn
    int64_t mask;              // index of its first word in the batch's masks; -1 if every token may be drawn
    const int32_t* noise_ids;  // [vocab_size], see NoiseIds; null if tokens are drawn with their own noise
    bool feeds_back;
    double level;                  // from which the feedback samplers start
    const float* own_logits;       // [vocab_size], the logits before guidance, or `logits`
    const float* negative_logits;  // [vocab_size], the logits after the negative prompt, or `logits`
    double guidance_scale;

    OUTRIDER_HOST_DEVICE bool is_guided() const { return logits != own_logits; }

    OUTRIDER_HOST_DEVICE bool has_noise(int64_t token_id) const {
        return noise_ids == nullptr || noise_ids[token_id] != kNoPartner;
    }
    /// The token whose noise a token uses.
    OUTRIDER_HOST_DEVICE uint32_t noise_id(int64_t token_id) const {
        return static_cast<uint32_t>(noise_ids == nullptr ? token_id : noise_ids[token_id]);
    }
};

/// The stages of a row's values.
enum class Stage { own, negative, logits, processed, distribution };

struct Weights {
    RowMaximum maximum;
    double sum;           // of exp(value - maximum)
    double weighted_sum;  // of (value - maximum) * exp(value - maximum)

    OUTRIDER_HOST_DEVICE double log_sum_exp() const {
        return static_cast<double>(maximum.value) + portable_log(sum);
    }
};

/// The results of a row.
struct DrawnRow {
    Weights own;       // of the logits before guidance
    Weights negative;  // of the negative logits
    Weights raw;
    Weights distribution;
    Scored cut;  // the last candidate that top-k and top-p keep
    SampleStatus status;
    int32_t token_id;
    float logit;   // of the token
    float value;   // of the token, in the distribution
    int32_t rank;  // of the token, among the logits
    double judged_norm;
    double judged;  // log-probability of the token in the distribution that judges it
};

/// Whether a row can be drawn from; needs the maxima of its logits and of its distribution.
OUTRIDER_HOST_DEVICE inline SampleStatus status_of(const DrawnRow& drawn) {
    if (!drawn.raw.maximum.valid || !drawn.distribution.maximum.valid) {
        return SampleStatus::invalid_logits;
    }
    return drawn.distribution.maximum.value > -kInfinity ? SampleStatus::drawn : SampleStatus::no_candidate;
}

/// A candidate; its log-probabilities also need the sums.
struct RankedToken {
    int32_t token_id;
    float logit;
    float value;  // in the distribution
    bool exists;
};

/// The contribution of a block of kSumBlock values to its row.
struct BlockPart {
    int32_t greatest;  // order keys
    int32_t least;
    int64_t winner;  // rank of the best score
    double sums[8];
    double weighted_sums[8];
    int32_t num_better;  // tokens that are better than the row's token
};

/// Pointers to device memory, and sizes.
struct DrawBatch {
    DrawRow* rows;          // [num_rows]
    DrawnRow* drawn;        // [num_rows]
    Edit* edits;            // [num_edits], those of one row contiguous
    BlockPart* parts;       // [num_rows, num_blocks]
    float* processed;       // [num_rows, vocab_size]
    float* distribution;    // [num_rows, vocab_size]
    float* guided;          // [num_rows, vocab_size], the logits of guided rows; null if there are none
    float* judged;          // [num_rows, vocab_size], see HostRow's Judged; null if no sampler feeds back
    uint64_t* masses;       // [num_rows, vocab_size], of the distribution
    Scored* ranked;         // [num_rows, ranked_size], in the order of candidates
    const uint32_t* masks;  // for rows with a mask: num_mask_words(vocab_size) words each
    int64_t num_rows;
    int64_t first_row;  // number of the first row in the edits
    int64_t num_edits;  // a power of two, or 0, so that few shapes occur
    int64_t vocab_size;
    int64_t ranked_size;  // a power of two, at least the most tokens that a row ranks
    int64_t num_blocks;
    bool truncates;
    bool runs_steps;

    /// Some of the rows, with all edits and the same scratch.
    DrawBatch part(int64_t first, int64_t count) const {
        DrawBatch some = *this;
        some.rows += first;
        some.drawn += first;
        some.first_row += first;
        some.num_rows = count;
        return some;
    }

    OUTRIDER_HOST_DEVICE const float* values(Stage stage, int64_t row) const {
        if (stage == Stage::own) {
            return rows[row].own_logits;
        }
        if (stage == Stage::negative) {
            return rows[row].negative_logits;
        }
        if (stage == Stage::logits) {
            return rows[row].logits;
        }
        return (stage == Stage::processed ? processed : distribution) + row * vocab_size;
    }
    OUTRIDER_HOST_DEVICE Weights& of(Stage stage, int64_t row) const {
        DrawnRow& of_row = drawn[row];
        if (stage == Stage::own) {
            return of_row.own;
        }
        if (stage == Stage::negative) {
            return of_row.negative;
        }
        return stage == Stage::logits ? of_row.raw : of_row.distribution;
    }
    OUTRIDER_HOST_DEVICE int64_t block_end(int64_t block) const {
        const int64_t end = (block + 1) * kSumBlock;
        return end < vocab_size ? end : vocab_size;
    }
    OUTRIDER_HOST_DEVICE bool is_drawn(int64_t row) const { return drawn[row].status == SampleStatus::drawn; }

    auto fields() const {
        return std::tie(rows, drawn, edits, parts, processed, distribution, guided, judged, masses, ranked,
                        masks, num_rows, first_row, num_edits, vocab_size, ranked_size, num_blocks, truncates,
                        runs_steps);
    }
    bool operator<(const DrawBatch& other) const { return fields() < other.fields(); }
};

}  // namespace outrider::cuda
