#include "outrider/run_ahead.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "require_range.h"
#include "sampling/token_mask.h"

namespace outrider {
namespace {

std::string entry(const char* field, size_t index) {
    return std::string(field) + "[" + std::to_string(index) + "]";
}

void require_in_vocabulary(const RunAhead& run, size_t index, int vocab_size) {
    if (run.state->largest_id() >= vocab_size) {
        throw std::invalid_argument(entry("states", index) + ": token id " +
                                    std::to_string(run.state->largest_id()) +
                                    " is outside the vocabulary of " + std::to_string(vocab_size));
    }
    for (const int32_t id : run.chain) {
        if (id < 0 || id >= vocab_size) {
            throw std::invalid_argument(entry("chains", index) + ": token id " + std::to_string(id) +
                                        " is outside the vocabulary of " + std::to_string(vocab_size));
        }
    }
}

/// The noise of a draw is the one of the position behind its row.
void require_start(const RunAhead& run, size_t index, int position) {
    const int64_t length = run.state->length();
    const auto chain_length = static_cast<int64_t>(run.chain.size());
    if (length + chain_length != int64_t{position} + 1) {
        throw std::invalid_argument(entry("chains", index) + ": " + std::to_string(length) +
                                    " tokens of history and " + std::to_string(chain_length) +
                                    " of the chain must end at the asked row, which is at position " +
                                    std::to_string(position));
    }
}

void require_room(const RunAhead& run, size_t index, const Batch& batch, int row, const Decoder& decoder) {
    const int64_t reachable = int64_t{batch.max_blocks} * kBlockSize;
    const int64_t room = std::min<int64_t>(decoder.config().max_position, reachable) - batch.positions[row];
    require_range(entry("counts", index), run.count, 1, room);
    const int sequence = batch.sequences[row];
    const int last_position = batch.positions[row] + run.count - 1;
    for (int block = batch.positions[row] / kBlockSize + 1; block <= last_position / kBlockSize; ++block) {
        require_range("block_tables[" + std::to_string(sequence) + ", " + std::to_string(block) + "]",
                      batch.block_tables[static_cast<size_t>(sequence) * batch.max_blocks + block], 0,
                      decoder.cache().num_blocks() - 1);
    }
}

/// A mask says nothing of what may follow the draw.
void require_fitting_mask(const RunAhead& run, size_t index, int vocab_size) {
    require_fitting(entry("masks", index), run.masks, vocab_size);
    if (run.masks.words != nullptr) {
        require_range(entry("counts", index), run.count, 1, 1);
    }
}

/// Else two rows of one position would write into the same place.
void require_free_way(const std::vector<RunAhead>& runs, const Batch& batch) {
    constexpr int kTaken = -1;
    std::vector<int> last_rows(batch.num_sequences);
    for (int row = 0; row < batch.num_rows; ++row) {
        last_rows[batch.sequences[row]] = row;
    }
    for (size_t i = 0; i < runs.size(); ++i) {
        const int row = batch.logit_rows[i];
        int& last_row = last_rows[batch.sequences[row]];
        if (runs[i].count > 1 && last_row != row) {
            throw std::invalid_argument(
                entry("counts", i) + " is " + std::to_string(runs[i].count) + "; it must be 1, as row " +
                std::to_string(row) + " is not the last of its sequence, or another state draws on from it");
        }
        if (runs[i].count > 1) {
            last_row = kTaken;
        }
    }
}

void require_valid(const Decoder& decoder, const Batch& batch, const Sampler& sampler,
                   const std::vector<RunAhead>& runs) {
    batch.validate(decoder.config(), decoder.cache().num_blocks());
    if (sampler.device() != decoder.device()) {
        throw std::invalid_argument("sampler: is on another device than the decoder");
    }
    if (runs.size() != static_cast<size_t>(batch.num_logits)) {
        throw std::invalid_argument("states has " + std::to_string(runs.size()) +
                                    " entries; it must have one for each of the batch's " +
                                    std::to_string(batch.num_logits) + " asked rows");
    }
    for (size_t i = 0; i < runs.size(); ++i) {
        const int row = batch.logit_rows[i];
        require_in_vocabulary(runs[i], i, decoder.config().vocab_size);
        require_start(runs[i], i, batch.positions[row]);
        require_room(runs[i], i, batch, row, decoder);
        require_fitting_mask(runs[i], i, decoder.config().vocab_size);
    }
    require_free_way(runs, batch);
}

/// A run under way.
struct Runner {
    const SamplingState* state;
    std::vector<int32_t> tokens;  // the chain, then the draws
    int num_left;                 // draws
    int32_t sequence;
    int32_t position;  // of the row that it draws from
    TokenMasks masks;
};

std::vector<Runner> make_runners(const Batch& batch, const std::vector<RunAhead>& runs) {
    std::vector<Runner> runners;
    for (size_t i = 0; i < runs.size(); ++i) {
        const int row = batch.logit_rows[i];
        runners.push_back({runs[i].state, runs[i].chain, runs[i].count, batch.sequences[row],
                           batch.positions[row], runs[i].masks});
    }
    return runners;
}

std::vector<Runner*> pointers_to(std::vector<Runner>& runners) {
    std::vector<Runner*> pointers;
    for (Runner& runner : runners) {
        pointers.push_back(&runner);
    }
    return pointers;
}

/// Draws once for each runner, whose rows the logits are in this order, and returns those that go on.
std::vector<Runner*> draw(Sampler& sampler, const Logits& logits, const std::vector<Runner*>& runners) {
    std::vector<SequenceRows> rows;
    for (const Runner* runner : runners) {
        const int length = static_cast<int>(runner->tokens.size());
        rows.push_back({runner->state, runner->tokens.data(), length, length, runner->masks});
    }
    const Samples samples = sampler.sample(logits, rows);
    std::vector<Runner*> going_on;
    for (size_t i = 0; i < runners.size(); ++i) {
        if (samples.status[i] != SampleStatus::drawn) {
            continue;
        }
        runners[i]->tokens.push_back(samples.token_ids[i]);
        if (--runners[i]->num_left > 0) {
            going_on.push_back(runners[i]);
        }
    }
    return going_on;
}

/// Moves each runner to the row of the token that it has just drawn; the block tables stay.
void refill(Batch& batch, const std::vector<Runner*>& runners) {
    int row = 0;
    for (Runner* runner : runners) {
        batch.token_ids[row] = runner->tokens.back();
        batch.positions[row] = ++runner->position;
        batch.sequences[row] = runner->sequence;
        batch.logit_rows[row] = row;
        ++row;
    }
    batch.num_rows = batch.num_logits = row;
}

}  // namespace

std::vector<std::vector<int32_t>> run_ahead(Decoder& decoder, const Batch& batch, Sampler& sampler,
                                            const std::vector<RunAhead>& runs) {
    require_valid(decoder, batch, sampler, runs);
    std::vector<Runner> runners = make_runners(batch, runs);
    Batch step = batch;
    std::vector<Runner*> drawing = draw(sampler, decoder.forward(step), pointers_to(runners));
    while (!drawing.empty()) {
        refill(step, drawing);
        drawing = draw(sampler, decoder.forward(step), drawing);
    }
    std::vector<std::vector<int32_t>> drawn;
    for (size_t i = 0; i < runs.size(); ++i) {
        drawn.emplace_back(runners[i].tokens.begin() + runs[i].chain.size(), runners[i].tokens.end());
    }
    return drawn;
}

}  // namespace outrider
