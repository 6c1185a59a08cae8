#include "outrider/sampling/run_ahead.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "outrider/decoder/limits.h"
#include "require_range.h"
#include "sampling/run_blocks.h"
#include "sampling/runners.h"
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

void require_unguided(const RunAhead& run, size_t index) {
    if (run.state->params().guides()) {
        throw std::invalid_argument(entry("states", index) +
                                    ": guidance_scale must be 1 where draws run ahead");
    }
}

/// A draw uses the noise of the position after its row.
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

/// The number of rows after the requested one whose keys and values a run of so many draws writes.
int rows_after(const DecoderConfig& config, int count) {
    if (config.reads_target()) {  // which writes none
        return 0;
    }
    return config.has_context() ? block_rows(*config.block(), count) : count - 1;
}

void require_room(const RunAhead& run, size_t index, const Batch& batch, int row, const Decoder& decoder) {
    const int64_t reachable = int64_t{batch.max_blocks} * kBlockSize;
    const int64_t room = std::min<int64_t>(decoder.config().max_position, reachable) - batch.positions[row];
    const bool is_free = decoder.config().reads_target();
    require_range(entry("counts", index), run.count, 1,
                  is_free ? kMostRows : room - 1 - rows_after(decoder.config(), 0));
    if (const FeatureBlock* block = decoder.config().block()) {
        require_range(entry("counts", index), run.count, 1, block->most_draws());
    }
    const int sequence = batch.sequences[row];
    const int last_position = batch.positions[row] + rows_after(decoder.config(), run.count);
    for (int block = batch.positions[row] / kBlockSize + 1; block <= last_position / kBlockSize; ++block) {
        require_range("block_tables[" + std::to_string(sequence) + ", " + std::to_string(block) + "]",
                      batch.block_tables[static_cast<size_t>(sequence) * batch.max_blocks + block], 0,
                      decoder.cache().num_blocks() - 1);
    }
    if (decoder.states() && run.count > 1) {  // the rows of its draws are not certain
        const int64_t certain = batch.states[sequence].certain;
        require_range(entry("states", sequence) + ".certain", certain, 0, batch.positions[row]);
        const int64_t reach = certain + decoder.state_reach();
        require_range(entry("counts", index), run.count, 1, reach - batch.positions[row]);
    }
}

/// A mask covers only the first draw, so a run with a mask has one draw.
void require_fitting_mask(const RunAhead& run, size_t index, int vocab_size) {
    require_fitting(entry("masks", index), run.masks, vocab_size);
    if (run.masks.words != nullptr) {
        require_range(entry("counts", index), run.count, 1, 1);
    }
}

/// Two runs from one row, or a run from a row that is not its sequence's last, would write to the same
/// positions; unless they write none, as one draw does without a context.
void require_free_way(const std::vector<RunAhead>& runs, const Batch& batch, const DecoderConfig& config) {
    constexpr int kTaken = -1;
    std::vector<int> last_rows(batch.num_sequences);
    for (int row = 0; row < batch.num_rows; ++row) {
        last_rows[batch.sequences[row]] = row;
    }
    for (size_t i = 0; i < runs.size(); ++i) {
        const int row = batch.logit_rows[i];
        int& last_row = last_rows[batch.sequences[row]];
        const bool writes = rows_after(config, runs[i].count) > 0;
        if (writes && last_row != row) {
            const std::string why = "as row " + std::to_string(row) +
                                    " is not the last of its sequence, or another state draws on from it";
            throw std::invalid_argument(config.has_context()
                                            ? entry("logit_rows", i) + ": must be another row, " + why
                                            : entry("counts", i) + " is " + std::to_string(runs[i].count) +
                                                  "; it must be 1, " + why);
        }
        if (writes) {
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
        require_unguided(runs[i], i);
        if (!decoder.config().features) {  // an attached drafter counts its own positions
            require_start(runs[i], i, batch.positions[row]);
        }
        require_room(runs[i], i, batch, row, decoder);
        require_fitting_mask(runs[i], i, decoder.config().vocab_size);
    }
    require_free_way(runs, batch, decoder.config());
}

/// The number of block-table columns that the passes need until the last draw.
int reached_blocks(const Batch& batch, const Runners& runners, const DecoderConfig& config) {
    int last_position = 0;
    for (int i = 0; i < runners.num_runs(); ++i) {
        const int last = batch.positions[runners.rows[i]] + rows_after(config, runners.counts[i]);
        last_position = std::max(last_position, last);
    }
    return std::max(last_position / kBlockSize + 1, used_blocks(batch));
}

/// Returns the runs' tokens, in the order of `runners`.
std::vector<std::vector<int32_t>> run(Decoder& decoder, const Batch& batch, Sampler& sampler,
                                      const Runners& runners) {
    const int num_blocks = reached_blocks(batch, runners, decoder.config());
    if (decoder.config().block()) {
        return run_blocks(decoder, batch.trimmed(num_blocks), sampler, runners);
    }
    Batch first = batch.trimmed(num_blocks);
    std::copy(runners.rows.begin(), runners.rows.end(), first.logit_rows.begin());
    const int num_going_on = runners.num_longer(1);
    if (num_going_on == 0) {
        return sampler.sample_ahead(decoder.forward(first).logits(), runners.sequences, runners.counts,
                                    runners.least_chances, {}, {});
    }
    // Reserve first, so that no memory moves between the passes.
    decoder.reserve(num_going_on, num_going_on, batch.num_sequences, num_blocks);
    const Logits logits = decoder.forward(first).logits();
    const NextRows next = decoder.place(first_step(batch, runners, num_going_on, num_blocks), num_blocks);
    return sampler.sample_ahead(logits, runners.sequences, runners.counts, runners.least_chances, next,
                                [&](int num_rows) { decoder.pass(num_rows, num_rows); });
}

}  // namespace

std::vector<std::vector<int32_t>> run_ahead(Decoder& decoder, const Batch& batch, Sampler& sampler,
                                            const std::vector<RunAhead>& runs) {
    require_valid(decoder, batch, sampler, runs);
    const Runners runners(batch, runs);
    std::vector<std::vector<int32_t>> tokens = run(decoder, batch, sampler, runners);
    std::vector<std::vector<int32_t>> drawn(runs.size());
    for (size_t i = 0; i < runs.size(); ++i) {
        drawn[runners.order[i]] = std::move(tokens[i]);
    }
    return drawn;
}

}  // namespace outrider
