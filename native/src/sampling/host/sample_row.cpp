#include "sampling/host/sample_row.h"

#include <limits>

#include "outrider/sampling/noise.h"
#include "sampling/host/draw.h"
#include "sampling/host/processing.h"
#include "sampling/host/softmax.h"
#include "sampling/host/truncation.h"

namespace outrider {
namespace {

/// What a row's token is drawn from: log-weights of all tokens.
struct Distribution {
    const float* values;  // [vocab_size]
    RowMaximum maximum;
};

bool leaves_values(const SamplingParams& params, int vocab_size) {
    return params.greedy() || (params.temperature == 1.0f && !params.truncates(vocab_size));
}

Distribution make_distribution(const SamplingRow& row, const float* processed, RowScratch* scratch) {
    const SamplingParams& params = row.params();
    if (leaves_values(params, row.vocab_size)) {
        return {processed, find_maximum(processed, row.vocab_size)};
    }
    scratch->distribution.resize(row.vocab_size);
    float* values = scratch->distribution.data();
    for (int i = 0; i < row.vocab_size; ++i) {
        values[i] = processed[i] / params.temperature;
    }
    return {values, find_maximum(values, row.vocab_size)};
}

SampleStatus status_of(const RowMaximum& maximum) {
    if (!maximum.valid) {
        return SampleStatus::invalid_logits;
    }
    return maximum.value > -std::numeric_limits<float>::infinity() ? SampleStatus::drawn
                                                                   : SampleStatus::no_candidate;
}

int32_t draw_token(const SamplingRow& row, const Distribution& distribution) {
    if (row.params().forced) {
        return row.forced_id();
    }
    const float* values = distribution.values;
    const int32_t best_id = first_index_of(distribution.maximum.value, values, row.vocab_size);
    if (row.params().greedy()) {
        return best_id;
    }
    const NoiseKey key{row.params().seed, static_cast<uint64_t>(row.position()), NoiseStream::token};
    const NoiseIds* noise_ids = row.state->noise_ids();
    return noise_ids == nullptr ? draw(values, row.vocab_size, best_id, key)
                                : draw_as(noise_ids->ids.data(), values, row.vocab_size, best_id, key);
}

/// Fills in the asked log-probabilities and candidates.
void record_logprobs(const SamplingRow& row, const float* processed, const Distribution& distribution,
                     double raw_norm, RowScratch* scratch, RowSample* sample) {
    const double norm = distribution.values == row.logits
                            ? raw_norm
                            : log_sum_exp(distribution.values, row.vocab_size, distribution.maximum.value);
    const auto candidate = [&](int32_t id) {
        return Candidate{id, static_cast<float>(row.logits[id] - raw_norm),
                         static_cast<float>(distribution.values[id] - norm)};
    };
    if (row.params().logprobs) {
        const Candidate drawn = candidate(sample->token_id);
        sample->raw_logprob = drawn.raw_logprob;
        sample->logprob = drawn.logprob;
    }
    select_best(processed, row.vocab_size, row.params().num_candidates, &scratch->ranked);
    for (const Scored& ranked : scratch->ranked) {
        sample->candidates.push_back(candidate(ranked.token_id));
    }
}

/// Fills in all that is asked of the token.
void record(const SamplingRow& row, const float* processed, const Distribution& distribution, float raw_best,
            RowScratch* scratch, RowSample* sample) {
    const SamplingParams& params = row.params();
    const bool asks_logprobs = params.logprobs || params.num_candidates > 0;
    if (asks_logprobs || params.entropy) {
        const double sum = sum_exp(row.logits, row.vocab_size, raw_best);
        if (asks_logprobs) {
            const double raw_norm = static_cast<double>(raw_best) + portable_log(sum);
            record_logprobs(row, processed, distribution, raw_norm, scratch, sample);
        }
        if (params.entropy) {
            const double weighted_sum = sum_weighted_exp(row.logits, row.vocab_size, raw_best);
            sample->entropy = static_cast<float>(entropy_of(sum, weighted_sum));
        }
    }
    if (params.rank) {
        sample->rank = rank_of(sample->token_id, row.logits, row.vocab_size);
    }
}

}  // namespace

RowSample sample_row(const SamplingRow& row, RowScratch* scratch) {
    RowSample sample;
    const SamplingParams& params = row.params();
    const RowMaximum raw = find_maximum(row.logits, row.vocab_size);
    if (!raw.valid) {
        sample.status = SampleStatus::invalid_logits;
        return sample;
    }
    const float* processed = process_logits(row, &scratch->processed);
    const Distribution distribution = make_distribution(row, processed, scratch);
    sample.status = status_of(distribution.maximum);
    if (sample.status != SampleStatus::drawn) {
        return sample;
    }
    if (params.truncates(row.vocab_size)) {
        truncate(params, distribution.maximum.value, scratch->distribution.data(), row.vocab_size,
                 &scratch->ranked);
    }
    sample.token_id = draw_token(row, distribution);
    record(row, processed, distribution, raw.value, scratch, &sample);
    return sample;
}

}  // namespace outrider
