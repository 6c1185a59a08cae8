#include "outrider/sampling/sampler.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "outrider/decoder/limits.h"
#include "require_range.h"
#include "sampling/row_sampler.h"
#include "sampling/run_draws.h"

namespace outrider {
namespace {

void require_in_vocabulary(int32_t id, int vocab_size, const char* where) {
    if (id < 0 || id >= vocab_size) {
        throw std::invalid_argument(std::string(where) + ": token id " + std::to_string(id) +
                                    " is outside the vocabulary of " + std::to_string(vocab_size));
    }
}

void require_valid(const SequenceRows& sequence, int vocab_size) {
    require_range("first_row", sequence.first_row, 0, sequence.num_predictions);
    if (sequence.state->largest_id() >= 0) {
        require_in_vocabulary(sequence.state->largest_id(), vocab_size, "state");
    }
    const NoiseIds* noise_ids = sequence.state->noise_ids().get();
    if (noise_ids != nullptr && noise_ids->ids.size() != static_cast<size_t>(vocab_size)) {
        throw std::invalid_argument("state: has " + std::to_string(noise_ids->ids.size()) +
                                    " noise ids, but the vocabulary has " + std::to_string(vocab_size));
    }
    std::for_each(sequence.predictions, sequence.predictions + sequence.num_predictions,
                  [&](int32_t id) { require_in_vocabulary(id, vocab_size, "predictions"); });
    require_fitting("masks", sequence.masks, vocab_size);
}

std::vector<SamplingRow> make_rows(const Logits& logits, const std::vector<SequenceRows>& sequences) {
    std::vector<SamplingRow> rows;
    int64_t wanted = 0;
    for (const SequenceRows& sequence : sequences) {
        require_valid(sequence, logits.vocab_size());
        wanted += sequence.num_logits();
    }
    if (wanted != logits.num_rows()) {
        throw std::invalid_argument("logits: have " + std::to_string(logits.num_rows()) +
                                    " rows, but the states with their predictions need " +
                                    std::to_string(wanted));
    }
    for (const SequenceRows& sequence : sequences) {
        for (int j = sequence.first_row; j < sequence.end_row(); ++j) {
            const float* values = logits.row(static_cast<int>(rows.size()));
            const uint32_t* mask = sequence.masks.row(j - sequence.first_row);
            rows.push_back({values, logits.vocab_size(), sequence.state, sequence.predictions, j, mask,
                            sequence.state->level()});
        }
    }
    int negative = static_cast<int>(rows.size());
    for (SamplingRow& row : rows) {
        if (row.params().guides()) {
            row.negative_logits = logits.row(negative++);
        }
    }
    return rows;
}

Samples gather(std::vector<RowSample> rows) {
    Samples samples;
    for (RowSample& row : rows) {
        samples.token_ids.push_back(row.token_id);
        samples.status.push_back(row.status);
        samples.raw_logprobs.push_back(row.raw_logprob);
        samples.logprobs.push_back(row.logprob);
        samples.ranks.push_back(row.rank);
        samples.entropies.push_back(row.entropy);
        samples.levels.push_back(row.level);
        samples.candidates.push_back(std::move(row.candidates));
    }
    return samples;
}

int count_longer(const std::vector<int>& counts, int length) {
    return static_cast<int>(
        std::count_if(counts.begin(), counts.end(), [=](int count) { return count > length; }));
}

}  // namespace

Sampler::Sampler(std::shared_ptr<Device> device)
    : device_(std::move(device)), row_sampler_(device_->make_row_sampler()) {}

Sampler::~Sampler() = default;

void Sampler::reserve(int vocab_size) {
    require_range("vocab_size", vocab_size, 1, kMostTokens);
    const std::lock_guard<std::mutex> lock(callers_);
    row_sampler_->reserve(vocab_size);
}

Samples Sampler::sample(const Logits& logits, const std::vector<SequenceRows>& sequences) {
    require_usable(logits);
    const std::lock_guard<std::mutex> guard(callers_);
    const std::vector<SamplingRow> rows = make_rows(logits, sequences);
    return gather(row_sampler_->sample(rows));
}

std::vector<std::vector<int32_t>> Sampler::sample_ahead(
    const Logits& logits, const std::vector<SequenceRows>& sequences, const std::vector<int>& counts,
    const std::vector<double>& least_chances, const NextRows& next, const std::function<void(int)>& pass) {
    require_usable(logits);
    const std::lock_guard<std::mutex> guard(callers_);
    std::vector<RunningRow> rows;
    for (const SamplingRow& row : make_rows(logits, sequences)) {
        rows.push_back({row, counts[rows.size()], least_chances[rows.size()]});
    }
    if (rows.empty()) {
        return {};
    }
    const std::unique_ptr<RunDraws> draws = row_sampler_->begin_run(rows, next);
    bool goes_on = draws->draw(static_cast<int>(rows.size()));
    for (int num_draws = 1; goes_on; ++num_draws) {
        const int num_rows = count_longer(counts, num_draws);
        pass(num_rows);
        goes_on = draws->draw(num_rows);
    }
    return draws->tokens();
}

void Sampler::require_usable(const Logits& logits) const {
    if (logits.device() != device_) {
        throw std::invalid_argument("logits: are on another device than the sampler");
    }
    require_range("vocab_size", logits.vocab_size(), 0, kMostTokens);
}

}  // namespace outrider
