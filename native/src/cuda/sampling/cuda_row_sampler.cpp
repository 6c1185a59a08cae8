#include "cuda/sampling/cuda_row_sampler.h"

#include <algorithm>
#include <utility>

#include "cuda/sampling/kernels/draw.h"
#include "cuda/sampling/kernels/ranking.h"
#include "cuda/sampling/kernels/softmax.h"
#include "sampling/steps/next_level.h"

namespace outrider::cuda {
namespace {

std::vector<Edit> all_edits_of(const std::vector<SamplingRow>& rows) {
    std::vector<Edit> all;
    for (size_t row = 0; row < rows.size(); ++row) {
        const std::vector<Edit> edits = edits_of(rows[row], static_cast<int32_t>(row));
        all.insert(all.end(), edits.begin(), edits.end());
    }
    return all;
}

void require_known_ahead(const RunningRow& from) {
    if (from.count > 1 && from.row.params().follows_history()) {
        throw std::invalid_argument("states: one that follows its history draws one token at a time");
    }
}

/// Splits rows into waves: first the rows whose samplers start from known levels, then those that follow one
/// of these, and so on; no wave has more rows than can be drawn from at once.
std::vector<std::vector<size_t>> waves_of(const std::vector<SamplingRow>& rows) {
    std::vector<std::vector<size_t>> by_depth;
    size_t depth = 0;
    for (size_t row = 0; row < rows.size(); ++row) {
        depth = row > 0 && rows[row].follows(rows[row - 1]) ? depth + 1 : 0;
        by_depth.resize(std::max(by_depth.size(), depth + 1));
        by_depth[depth].push_back(row);
    }
    std::vector<std::vector<size_t>> waves;
    for (const std::vector<size_t>& known : by_depth) {
        for (size_t first = 0; first < known.size(); first += TokenDraws::kMaxRows) {
            const size_t end = std::min<size_t>(first + TokenDraws::kMaxRows, known.size());
            waves.emplace_back(known.begin() + first, known.begin() + end);
        }
    }
    return waves;
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

RowSample sample_of(const SamplingRow& row, const DrawnRow& drawn, const RankedToken* candidates,
                    int64_t max_candidates) {
    const SamplingParams& params = row.params();
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
    if (params.steps.feed_back()) {
        sample.level = next_level(params, row.level, drawn.judged);
    }
    return sample;
}

}  // namespace

/// The statistics that some row of a batch requests, which are then computed for all rows.
struct CudaRowSampler::Needs {
    explicit Needs(const std::vector<SamplingRow>& rows) {
        for (const SamplingRow& row : rows) {
            const SamplingParams& params = row.params();
            sums = sums || params.logprobs || params.num_candidates > 0;
            candidates = std::max(candidates, std::min<int64_t>(params.num_candidates, row.vocab_size));
            ranks = ranks || params.rank;
            entropies = entropies || params.entropy;
        }
    }

    bool sums = false;
    int64_t candidates = 0;  // of the row with the most
    bool ranks = false;
    bool entropies = false;
};

CudaRowSampler::CudaRowSampler(Stream& stream)
    : stream_(stream), draws_(stream), run_memory_(stream), candidates_(stream) {}

void CudaRowSampler::reserve(int64_t vocab_size) {
    draws_.reserve(vocab_size);
    run_memory_.reserve();
    candidates_.reserve(TokenDraws::kMaxRows * vocab_size);
}

std::vector<RowSample> CudaRowSampler::sample(const std::vector<SamplingRow>& rows) {
    std::vector<RowSample> samples(rows.size());
    for (const std::vector<size_t>& wave : waves_of(rows)) {
        std::vector<SamplingRow> some;
        for (const size_t row : wave) {
            some.push_back(rows[row]);
            if (row > 0 && rows[row].follows(rows[row - 1])) {
                some.back().level = samples[row - 1].level;
            }
        }
        std::vector<RowSample> drawn = sample_some(some);
        for (size_t i = 0; i < wave.size(); ++i) {
            samples[wave[i]] = std::move(drawn[i]);
        }
    }
    return samples;
}

std::unique_ptr<RunDraws> CudaRowSampler::begin_run(const std::vector<RunningRow>& rows,
                                                    const NextRows& next) {
    std::for_each(rows.begin(), rows.end(), require_known_ahead);
    return std::make_unique<CudaRunDraws>(stream_, draws_, run_memory_, rows, next);
}

std::vector<RowSample> CudaRowSampler::sample_some(const std::vector<SamplingRow>& rows) {
    const Needs needs(rows);
    const auto num_rows = static_cast<int64_t>(rows.size());
    const DrawBatch batch = draws_.place(rows, all_edits_of(rows));
    draws_.draw(batch);
    sum(batch, needs);
    if (needs.ranks) {
        find_ranks(stream_, batch);
    }
    if (needs.candidates > 0) {
        rank(stream_, batch);
        list_candidates(stream_, batch, candidates_.reserve(num_rows * needs.candidates), needs.candidates);
    }
    const std::vector<DrawnRow> drawn = draws_.download(num_rows);
    const std::vector<RankedToken> candidates = candidates_.download(num_rows * needs.candidates);
    std::vector<RowSample> samples;
    for (int64_t row = 0; row < num_rows; ++row) {
        samples.push_back(
            sample_of(rows[row], drawn[row], candidates.data() + row * needs.candidates, needs.candidates));
    }
    return samples;
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

}  // namespace outrider::cuda
