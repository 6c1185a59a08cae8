#include "sampling/host/sample_row.h"

#include <limits>

#include "outrider/sampling/noise.h"
#include "sampling/host/guidance.h"
#include "sampling/host/processing.h"
#include "sampling/host/row/draw.h"
#include "sampling/host/row/softmax.h"
#include "sampling/host/row/truncation.h"
#include "sampling/steps/next_level.h"
#include "sampling/steps/run_steps.h"

namespace outrider {
namespace {

/// A row's distribution, as log-weights of all tokens.
struct Distribution {
    const float* values;  // [vocab_size]
    RowMaximum maximum;
};

bool leaves_values(const SamplingParams& params, int vocab_size) {
    return params.greedy() ||
           (params.temperature == 1.0f && !params.steps.in_use && !params.truncates(vocab_size));
}

NoiseKey noise_key(const SamplingRow& row) {
    return {row.params().seed, static_cast<uint64_t>(row.position()), NoiseStream::token};
}

Distribution make_distribution(const SamplingRow& row, const float* processed, RowScratch* scratch) {
    const SamplingParams& params = row.params();
    if (leaves_values(params, row.vocab_size)) {
        return {processed, find_maximum(processed, row.vocab_size)};
    }
    scratch->distribution.resize(row.vocab_size);
    float* values = scratch->distribution.data();
    const float divisor = params.steps.in_use ? 1.0f : params.temperature;
    for (int i = 0; i < row.vocab_size; ++i) {
        values[i] = processed[i] / divisor;
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

/// Applies the row's sampler steps, or its truncation, to the distribution.
void narrow(const SamplingRow& row, RowScratch* scratch, Distribution* distribution) {
    const SamplingParams& params = row.params();
    if (params.steps.in_use) {
        HostRow steps(scratch->distribution.data(), row.vocab_size, distribution->maximum, noise_key(row),
                      &scratch->steps);
        run_steps(steps, params, row.level);
        distribution->maximum = steps.maximum();
    } else if (params.truncates(row.vocab_size)) {
        truncate(params, distribution->maximum.value, scratch->distribution.data(), row.vocab_size,
                 &scratch->ranked);
    }
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
    const NoiseKey key = noise_key(row);
    const NoiseIds* noise_ids = row.state->noise_ids().get();
    return noise_ids == nullptr ? draw(values, row.vocab_size, best_id, key)
                                : draw_as(noise_ids->ids.data(), values, row.vocab_size, best_id, key);
}

float margin_of(const SamplingRow& row, const float* values, int32_t drawn) {
    if (row.params().greedy()) {
        return greedy_margin(values, row.vocab_size, drawn);
    }
    return margin(values, row.vocab_size, drawn, noise_key(row));
}

/// Fills in the requested log-probabilities and candidates.
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

/// Fills in the requested statistics of the token.
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

RowSample sample_logits(const SamplingRow& row, RowScratch* scratch) {
    RowSample sample;
    const RowMaximum raw = find_maximum(row.logits, row.vocab_size);
    if (!raw.valid) {
        sample.status = SampleStatus::invalid_logits;
        return sample;
    }
    const float* processed = process_logits(row, &scratch->processed);
    Distribution distribution = make_distribution(row, processed, scratch);
    sample.status = status_of(distribution.maximum);
    if (sample.status == SampleStatus::drawn) {
        narrow(row, scratch, &distribution);
        sample.status = status_of(distribution.maximum);
    }
    if (sample.status != SampleStatus::drawn) {
        return sample;
    }
    sample.token_id = draw_token(row, distribution);
    if (row.params().steps.feed_back()) {
        sample.level = next_level(row.params(), row.level, scratch->steps.judged.logprob(sample.token_id));
    }
    if (row.wants_margin) {
        sample.margin = margin_of(row, distribution.values, sample.token_id);
    }
    record(row, processed, distribution, raw.value, scratch, &sample);
    return sample;
}

}  // namespace

RowSample sample_row(const SamplingRow& row, RowScratch* scratch) {
    if (row.negative_logits == nullptr) {
        return sample_logits(row, scratch);
    }
    guide(row, &scratch->guided);
    SamplingRow guided = row;
    guided.logits = scratch->guided.data();
    return sample_logits(guided, scratch);
}

}  // namespace outrider
