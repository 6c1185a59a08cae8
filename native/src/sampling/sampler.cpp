#include "outrider/sampler.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

#include "require_range.h"
#include "sampling_row.h"

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
    std::for_each(sequence.predictions, sequence.predictions + sequence.num_predictions,
                  [&](int32_t id) { require_in_vocabulary(id, vocab_size, "predictions"); });
}

void require_valid(const Logits& logits, const std::vector<SequenceRows>& sequences) {
    int64_t wanted = 0;
    for (const SequenceRows& sequence : sequences) {
        require_valid(sequence, logits.vocab_size());
        wanted += sequence.num_rows();
    }
    if (wanted != logits.num_rows()) {
        throw std::invalid_argument("logits: have " + std::to_string(logits.num_rows()) +
                                    " rows, but the states with their predictions need " +
                                    std::to_string(wanted));
    }
}

/// `logits` is memory of the host.  # [rows, vocab_size]
std::vector<SamplingRow> make_rows(const float* logits, int vocab_size,
                                   const std::vector<SequenceRows>& sequences) {
    std::vector<SamplingRow> rows;
    for (const SequenceRows& sequence : sequences) {
        for (int j = sequence.first_row; j <= sequence.num_predictions; ++j) {
            rows.push_back({logits, vocab_size, sequence.state, sequence.predictions, j});
            logits += vocab_size;
        }
    }
    return rows;
}

Samples make_samples(size_t rows) {
    return {std::vector<int32_t>(rows), std::vector<SampleStatus>(rows), std::vector<float>(rows),
            std::vector<float>(rows), std::vector<std::vector<Candidate>>(rows)};
}

void store(RowSample sample, size_t row, Samples* samples) {
    samples->token_ids[row] = sample.token_id;
    samples->status[row] = sample.status;
    samples->raw_logprobs[row] = sample.raw_logprob;
    samples->logprobs[row] = sample.logprob;
    samples->candidates[row] = std::move(sample.candidates);
}

}  // namespace

Sampler::Sampler(std::shared_ptr<Device> device)
    : device_(std::move(device)), scratch_(device_->pool().size()) {}

Sampler::~Sampler() = default;

Samples Sampler::sample(const Logits& logits, const std::vector<SequenceRows>& sequences) {
    if (logits.device() != device_) {
        throw std::invalid_argument("logits: are on another device than the sampler");
    }
    require_valid(logits, sequences);
    const std::lock_guard<std::mutex> guard(callers_);
    const std::vector<SamplingRow> rows = make_rows(on_host(logits), logits.vocab_size(), sequences);
    Samples samples = make_samples(rows.size());
    std::atomic<size_t> next{0};
    // One task per scratch, each taking rows until none is left.
    device_->pool().parallel_for(static_cast<int64_t>(std::min(scratch_.size(), rows.size())),
                                 [&](int64_t task) {
                                     for (size_t row = next++; row < rows.size(); row = next++) {
                                         store(sample_row(rows[row], &scratch_[task]), row, &samples);
                                     }
                                 });
    return samples;
}

const float* Sampler::on_host(const Logits& logits) {
    if (device_->host_reads()) {
        return logits.data();
    }
    downloaded_.resize(static_cast<size_t>(logits.num_rows()) * logits.vocab_size());
    device_->download(downloaded_.data(), logits.data(), downloaded_.size() * sizeof(float));
    return downloaded_.data();
}

}  // namespace outrider
