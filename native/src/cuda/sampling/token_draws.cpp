#include "cuda/sampling/token_draws.h"

#include <algorithm>
#include <iterator>

#include "cuda/sampling/kernels/draw.h"
#include "cuda/sampling/kernels/processing.h"
#include "cuda/sampling/kernels/softmax.h"
#include "cuda/sampling/kernels/steps.h"
#include "cuda/sampling/kernels/truncation.h"
#include "sampling/token_mask.h"

namespace outrider::cuda {
namespace {

bool is_guided(const SamplingRow& row) {
    return row.negative_logits != nullptr;
}

DrawRow draw_row(const SamplingRow& row, const int32_t* noise_ids) {
    const SamplingParams& params = row.params();
    return {row.logits,
            params.seed,
            row.position(),
            params,
            params.logprobs,
            std::min<int64_t>(params.num_candidates, row.vocab_size),
            params.rank,
            params.entropy,
            row.forced_id(),
            -1,
            noise_ids,
            params.steps.feed_back(),
            row.level,
            row.logits,
            is_guided(row) ? row.negative_logits : row.logits,
            params.guidance_scale};
}

/// Concatenates the masks of the rows that have one; each row gets the index of its first word.
std::vector<uint32_t> gather_masks(const std::vector<SamplingRow>& rows, std::vector<DrawRow>* draws) {
    std::vector<uint32_t> masks;
    for (size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].mask != nullptr) {
            (*draws)[i].mask = static_cast<int64_t>(masks.size());
            masks.insert(masks.end(), rows[i].mask, rows[i].mask + num_mask_words(rows[i].vocab_size));
        }
    }
    return masks;
}

/// Makes the guided rows draw from the guided logits. Guided rows must all be drawn from at once.
void put_guided(const std::vector<SamplingRow>& rows, float* guided, std::vector<DrawRow>* draws) {
    for (size_t i = 0; i < rows.size(); ++i) {
        if (is_guided(rows[i])) {
            (*draws)[i].logits = guided + i * rows[i].vocab_size;
        }
    }
}

int64_t power_of_two_from(int64_t size) {
    int64_t power = 1;
    while (power < size) {
        power *= 2;
    }
    return power;
}

int64_t num_blocks_of(int64_t vocab_size) {
    return (vocab_size + kSumBlock - 1) / kSumBlock;
}

bool is_truncated(const SamplingRow& row) {
    return row.params().truncates(row.vocab_size);
}

bool goes_through_steps(const SamplingRow& row) {
    return row.params().steps.in_use;
}

bool feeds_back(const SamplingRow& row) {
    return row.params().steps.feed_back();
}

/// The greatest number of tokens that a row requests as candidates, or that one of its steps ranks.
int64_t most_ranked(const std::vector<DrawRow>& rows, int64_t vocab_size) {
    int64_t most = 0;
    for (const DrawRow& row : rows) {
        most = std::max(most, row.numbers.steps.ranks() ? vocab_size : row.num_candidates);
    }
    return most;
}

}  // namespace

TokenDraws::TokenDraws(Stream& stream)
    : stream_(stream),
      recordings_(stream),
      rows_(stream),
      edits_(stream),
      masks_(stream),
      lent_noise_(stream),
      drawn_(stream),
      parts_(stream),
      processed_(stream),
      distribution_(stream),
      guided_(stream),
      judged_(stream),
      masses_(stream),
      ranked_(stream) {}

void TokenDraws::reserve(int64_t vocab_size) {
    const size_t values = kMaxRows * vocab_size;
    rows_.reserve(kReservedRows);
    drawn_.reserve(kReservedRows);
    parts_.reserve(kMaxRows * num_blocks_of(vocab_size));
    edits_.reserve(power_of_two_from(values));
    masks_.reserve(kMaxRows * num_mask_words(vocab_size));
    processed_.reserve(values);
    distribution_.reserve(values);
    guided_.reserve(values);
    judged_.reserve(values);
    masses_.reserve(values);
    ranked_.reserve(kMaxRows * power_of_two_from(vocab_size));
}

DrawBatch TokenDraws::place(const std::vector<SamplingRow>& rows, std::vector<Edit> edits) {
    edits.resize(edits.empty() ? 0 : power_of_two_from(static_cast<int64_t>(edits.size())), {0, kNoToken});
    std::vector<DrawRow> draws;
    std::transform(rows.begin(), rows.end(), std::back_inserter(draws), [this](const SamplingRow& row) {
        return draw_row(row, lent_noise_.on_device(row.state->noise_ids()));
    });
    const std::vector<uint32_t> masks = gather_masks(rows, &draws);
    DrawBatch batch{};
    batch.num_rows = static_cast<int64_t>(rows.size());
    batch.vocab_size = rows.front().vocab_size;
    batch.num_blocks = num_blocks_of(batch.vocab_size);
    batch.num_edits = static_cast<int64_t>(edits.size());
    batch.truncates = std::any_of(rows.begin(), rows.end(), is_truncated);
    batch.runs_steps = std::any_of(rows.begin(), rows.end(), goes_through_steps);
    const int64_t num_at_once = std::min(batch.num_rows, kMaxRows);
    if (std::any_of(rows.begin(), rows.end(), is_guided)) {
        batch.guided = guided_.reserve(num_at_once * batch.vocab_size);
        put_guided(rows, batch.guided, &draws);
    }
    if (std::any_of(rows.begin(), rows.end(), feeds_back)) {
        batch.judged = judged_.reserve(num_at_once * batch.vocab_size);
    }
    batch.rows = rows_.upload(draws);
    batch.edits = edits_.upload(edits);
    batch.masks = masks_.upload(masks);
    batch.drawn = drawn_.reserve(batch.num_rows);
    batch.parts = parts_.reserve(num_at_once * batch.num_blocks);
    batch.processed = processed_.reserve(num_at_once * batch.vocab_size);
    batch.distribution = distribution_.reserve(num_at_once * batch.vocab_size);
    if (batch.truncates || batch.runs_steps) {
        batch.masses = masses_.reserve(num_at_once * batch.vocab_size);
    }
    if (const int64_t ranked = most_ranked(draws, batch.vocab_size); ranked > 0) {
        batch.ranked_size = power_of_two_from(ranked);
        batch.ranked = ranked_.reserve(num_at_once * batch.ranked_size);
    }
    return batch;
}

void TokenDraws::draw(const DrawBatch& batch) {
    recordings_.run(batch, [&] { enqueue(batch); });
}

void TokenDraws::enqueue(const DrawBatch& batch) const {
    if (batch.guided != nullptr) {
        guide(stream_, batch);
    }
    process(stream_, batch);
    find_maxima(stream_, batch, Stage::logits);
    find_maxima(stream_, batch, Stage::distribution);
    decide_status(stream_, batch);
    if (batch.truncates) {
        truncate(stream_, batch);
    }
    if (batch.runs_steps) {
        run_steps(stream_, batch);
    }
    cuda::draw(stream_, batch);
}

}  // namespace outrider::cuda
