#include "cuda/sampling/cuda_row_sampler.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "cuda/sampling/draw.h"
#include "cuda/sampling/ranking.h"
#include "cuda/sampling/softmax.h"
#include "cuda/sampling/truncation.h"

namespace outrider::cuda {
namespace {

constexpr int64_t kMaxRows = 16;  // at once: a row of 150000 tokens takes 6 MB beside its logits

DrawRow draw_row(const SamplingRow& row) {
    const SamplingParams& params = row.params();
    return {row.logits,
            params.seed,
            row.position(),
            params.top_k < row.vocab_size ? params.top_k : 0,
            params.top_p,
            params.min_p,
            row.penalties(),
            params.temperature,
            params.greedy(),
            params.logprobs,
            std::min<int64_t>(params.num_candidates, row.vocab_size),
            params.rank,
            params.entropy,
            row.forced_id(),
            -1};
}

/// The masks of the rows that have one, behind one another; tells each row where its own begins.
std::vector<uint32_t> gather_masks(const SamplingRow* rows, std::vector<DrawRow>* draws) {
    std::vector<uint32_t> masks;
    for (DrawRow& draw : *draws) {
        if (rows->mask != nullptr) {
            draw.mask = static_cast<int64_t>(masks.size());
            masks.insert(masks.end(), rows->mask, rows->mask + num_mask_words(rows->vocab_size));
        }
        ++rows;
    }
    return masks;
}

/// The edits of one row, each token's once.
class RowEdits {
  public:
    explicit RowEdits(int32_t row) : row_(row) {}

    Edit& at(int32_t token_id) {
        const auto [place, added] = index_.try_emplace(token_id, edits_.size());
        if (added) {
            edits_.push_back({row_, token_id});
        }
        return edits_[place->second];
    }

    const std::vector<Edit>& edits() const { return edits_; }

  private:
    int32_t row_;
    std::vector<Edit> edits_;
    std::unordered_map<int32_t, size_t> index_;
};

std::vector<Edit> edits_of(const SamplingRow& row, int32_t index) {
    RowEdits edits(index);
    const SamplingParams& params = row.params();
    if (params.penalises()) {
        for (const auto& [id, generated] : row.state->counts().entries()) {
            edits.at(id).penalised = true;
            edits.at(id).generated = generated;
        }
        std::for_each(row.predictions, row.predictions + row.num_predictions, [&](int32_t id) {
            edits.at(id).penalised = true;
            ++edits.at(id).generated;
        });
    }
    for (const auto& [id, bias] : params.logit_bias) {
        edits.at(id).biased = true;
        edits.at(id).bias = bias;
    }
    row.for_each_masked([&](int32_t id) { edits.at(id).masked = true; });
    return edits.edits();
}

std::vector<Edit> edits_of(const SamplingRow* rows, int64_t num_rows) {
    std::vector<Edit> all;
    for (int64_t row = 0; row < num_rows; ++row) {
        const std::vector<Edit> edits = edits_of(rows[row], static_cast<int32_t>(row));
        all.insert(all.end(), edits.begin(), edits.end());
    }
    return all;
}

int64_t power_of_two_from(int64_t size) {
    int64_t power = 1;
    while (power < size) {
        power *= 2;
    }
    return power;
}

void record_logprobs(const SamplingParams& params, const DrawnRow& drawn, const RankedToken* candidates,
                     int64_t max_candidates, RowSample* sample) {
    const double raw_norm = drawn.raw.log_sum_exp();
    const double norm = drawn.distribution.log_sum_exp();
    if (params.logprobs) {
        sample->raw_logprob = static_cast<float>(drawn.logit - raw_norm);
        sample->logprob = static_cast<float>(drawn.value - norm);
    }
    for (int64_t i = 0; i < max_candidates && candidates[i].exists; ++i) {
        const RankedToken& token = candidates[i];
        sample->candidates.push_back({token.token_id, static_cast<float>(token.logit - raw_norm),
                                      static_cast<float>(token.value - norm)});
    }
}

RowSample sample_of(const SamplingParams& params, const DrawnRow& drawn, const RankedToken* candidates,
                    int64_t max_candidates) {
    RowSample sample;
    sample.status = drawn.status;
    sample.token_id = drawn.token_id;
    if (drawn.status != SampleStatus::drawn) {
        return sample;
    }
    if (params.logprobs || params.num_candidates > 0) {
        record_logprobs(params, drawn, candidates, max_candidates, &sample);
    }
    if (params.rank) {
        sample.rank = drawn.rank;
    }
    if (params.entropy) {
        sample.entropy = static_cast<float>(entropy_of(drawn.raw.sum, drawn.raw.weighted_sum));
    }
    return sample;
}

}  // namespace

/// What some row of a batch asks for, and all go through then.
struct CudaRowSampler::Needs {
    explicit Needs(const std::vector<DrawRow>& rows) {
        for (const DrawRow& row : rows) {
            truncation = truncation || row.is_truncated();
            sums = sums || row.logprobs || row.num_candidates > 0;
            candidates = std::max(candidates, row.num_candidates);
            ranks = ranks || row.rank;
            entropies = entropies || row.entropy;
        }
    }

    bool truncation = false;
    bool sums = false;
    int64_t candidates = 0;  // of one row
    bool ranks = false;
    bool entropies = false;
};

CudaRowSampler::CudaRowSampler(Stream& stream)
    : stream_(stream),
      rows_(stream),
      edits_(stream),
      masks_(stream),
      drawn_(stream),
      parts_(stream),
      processed_(stream),
      distribution_(stream),
      masses_(stream),
      ranked_(stream),
      candidates_(stream) {}

/// All that kMaxRows rows of any parameters could need.
void CudaRowSampler::reserve(int64_t vocab_size) {
    const size_t rows = kMaxRows;
    const size_t values = rows * vocab_size;
    rows_.reserve(rows);
    drawn_.reserve(rows);
    parts_.reserve(rows * ((vocab_size + kSumBlock - 1) / kSumBlock));
    edits_.reserve(values);
    masks_.reserve(rows * num_mask_words(vocab_size));
    processed_.reserve(values);
    distribution_.reserve(values);
    masses_.reserve(values);
    ranked_.reserve(rows * power_of_two_from(vocab_size));
    candidates_.reserve(values);
}

std::vector<RowSample> CudaRowSampler::sample(const std::vector<SamplingRow>& rows) {
    if (std::any_of(rows.begin(), rows.end(),
                    [](const auto& row) { return row.state->noise_ids() != nullptr; })) {
        throw std::invalid_argument("states: noise ids are for CPUs only");
    }
    std::vector<RowSample> samples(rows.size());
    const auto count = static_cast<int64_t>(rows.size());
    for (int64_t first = 0; first < count; first += kMaxRows) {
        sample_some(rows.data() + first, std::min(kMaxRows, count - first), samples.data() + first);
    }
    return samples;
}

void CudaRowSampler::sample_some(const SamplingRow* rows, int64_t num_rows, RowSample* samples) {
    std::vector<DrawRow> params;
    std::transform(rows, rows + num_rows, std::back_inserter(params), draw_row);
    const Needs needs(params);
    const std::vector<uint32_t> masks = gather_masks(rows, &params);
    DrawBatch batch = make_batch(params, rows->vocab_size, needs);
    batch.masks = masks_.upload(masks);
    const std::vector<Edit> edits = edits_of(rows, num_rows);
    process(stream_, batch, edits_.upload(edits), static_cast<int64_t>(edits.size()));
    find_maxima(stream_, batch, Stage::logits);
    find_maxima(stream_, batch, Stage::distribution);
    decide_status(stream_, batch);
    if (needs.truncation) {
        truncate(stream_, batch);
    }
    draw(stream_, batch);
    sum(batch, needs);
    if (needs.ranks) {
        find_ranks(stream_, batch);
    }
    if (needs.candidates > 0) {
        rank(stream_, batch);
        list_candidates(stream_, batch, candidates_.reserve(num_rows * needs.candidates), needs.candidates);
    }
    const std::vector<DrawnRow> drawn = drawn_.download(num_rows);
    const std::vector<RankedToken> candidates = candidates_.download(num_rows * needs.candidates);
    for (int64_t row = 0; row < num_rows; ++row) {
        samples[row] = sample_of(rows[row].params(), drawn[row], candidates.data() + row * needs.candidates,
                                 needs.candidates);
    }
}

void CudaRowSampler::sum(const DrawBatch& batch, const Needs& needs) {
    if (needs.sums || needs.entropies) {
        sum_exponentials(stream_, batch, Stage::logits);
    }
    if (needs.sums) {
        sum_exponentials(stream_, batch, Stage::distribution);
    }
    if (needs.entropies) {
        sum_weighted_exponentials(stream_, batch);
    }
}

DrawBatch CudaRowSampler::make_batch(const std::vector<DrawRow>& rows, int64_t vocab_size,
                                     const Needs& needs) {
    const auto num_rows = static_cast<int64_t>(rows.size());
    DrawBatch batch{};
    batch.num_rows = num_rows;
    batch.vocab_size = vocab_size;
    batch.num_blocks = (vocab_size + kSumBlock - 1) / kSumBlock;
    batch.rows = rows_.upload(rows);
    batch.drawn = drawn_.reserve(num_rows);
    batch.parts = parts_.reserve(num_rows * batch.num_blocks);
    batch.processed = processed_.reserve(num_rows * vocab_size);
    batch.distribution = distribution_.reserve(num_rows * vocab_size);
    if (needs.truncation) {
        batch.masses = masses_.reserve(num_rows * vocab_size);
    }
    if (needs.candidates > 0) {
        batch.ranked_size = power_of_two_from(needs.candidates);
        batch.ranked = ranked_.reserve(num_rows * batch.ranked_size);
    }
    return batch;
}

}  // namespace outrider::cuda
