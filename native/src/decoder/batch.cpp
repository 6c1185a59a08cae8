#include "outrider/decoder/batch.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "outrider/decoder/limits.h"
#include "require_range.h"

namespace outrider {
namespace {

/// Called for every row of every pass, so the error text is only built on failure.
void require_entry(const char* field, int index, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) {
        require_range(std::string(field) + "[" + std::to_string(index) + "]", value, low, high);
    }
}

/// The number of positions that any layer reads; -1 if a layer attends to all of them. Older positions are
/// never read, so their blocks may have been freed.
int longest_window(const DecoderConfig& config) {
    int longest = 0;
    for (const LayerConfig& layer : config.layers) {
        const bool attends = layer.kind == LayerKind::attention || layer.kind == LayerKind::latent_attention;
        if (attends && layer.window == 0) {
            return -1;
        }
        longest = std::max({longest, layer.window, layer.taps});
    }
    return longest;
}

constexpr int kUnseen = -1;

}  // namespace

Batch::Batch(int max_rows, int max_sequences, int max_blocks)
    : max_rows(max_rows), max_sequences(max_sequences), max_blocks(max_blocks) {
    require_range("max_rows", max_rows, 1, kMostRows);
    require_range("max_sequences", max_sequences, 1, kMostRows);
    require_range("max_blocks", max_blocks, 1, kMostBlocks);
    require_range("max_sequences * max_blocks", int64_t{max_sequences} * max_blocks, 1, kMostTableEntries);
    token_ids.resize(max_rows);
    positions.resize(max_rows);
    sequences.resize(max_rows);
    logit_rows.resize(max_rows);
    adapters.resize(max_sequences, kNoAdapter);
    states.resize(max_sequences);
    block_tables.resize(static_cast<size_t>(max_sequences) * max_blocks);
}

void Batch::clear() {
    std::fill(adapters.begin(), adapters.end(), kNoAdapter);
    num_rows = num_sequences = num_logits = 0;
}

void Batch::append(const std::vector<int32_t>& run, int position, const std::vector<int32_t>& blocks,
                   int run_logits, int adapter, const StatePlace& state) {
    const int64_t reachable = int64_t{max_blocks} * kBlockSize;
    const int64_t room = std::min<int64_t>(max_rows - num_rows, reachable);
    require_range("token_ids", static_cast<int64_t>(run.size()), 1, room);
    const int count = static_cast<int>(run.size());
    require_range("position", position, 0, reachable - count);
    require_range("sequences", num_sequences, 0, max_sequences - 1);
    require_range("blocks", static_cast<int64_t>(blocks.size()), 0, max_blocks);
    require_range("num_logits", run_logits, 0, std::min(count, max_rows - num_logits));
    std::copy(run.begin(), run.end(), token_ids.begin() + num_rows);
    std::iota(positions.begin() + num_rows, positions.begin() + num_rows + count, position);
    std::fill_n(sequences.begin() + num_rows, count, num_sequences);
    std::copy(blocks.begin(), blocks.end(),
              block_tables.begin() + static_cast<int64_t>(num_sequences) * max_blocks);
    adapters[num_sequences] = adapter;
    states[num_sequences] = state;
    num_rows += count;
    num_sequences += 1;
    std::iota(logit_rows.begin() + num_logits, logit_rows.begin() + num_logits + run_logits,
              num_rows - run_logits);
    num_logits += run_logits;
}

Batch Batch::trimmed(int num_blocks, int spare_rows) const {
    Batch copy(std::max(num_rows, num_logits) + spare_rows, num_sequences,
               num_blocks);  // logit rows may repeat
    copy.num_rows = num_rows;
    copy.num_sequences = num_sequences;
    copy.num_logits = num_logits;
    std::copy_n(token_ids.begin(), num_rows, copy.token_ids.begin());
    std::copy_n(positions.begin(), num_rows, copy.positions.begin());
    std::copy_n(sequences.begin(), num_rows, copy.sequences.begin());
    std::copy_n(adapters.begin(), num_sequences, copy.adapters.begin());
    std::copy_n(states.begin(), num_sequences, copy.states.begin());
    std::copy_n(logit_rows.begin(), num_logits, copy.logit_rows.begin());
    for (int sequence = 0; sequence < num_sequences; ++sequence) {
        std::copy_n(block_tables.begin() + static_cast<int64_t>(sequence) * max_blocks, num_blocks,
                    copy.block_tables.begin() + static_cast<int64_t>(sequence) * num_blocks);
    }
    return copy;
}

void Batch::validate(const DecoderConfig& config, int num_blocks) const {
    require_range("num_rows", num_rows, 1, max_rows);
    require_range("num_sequences", num_sequences, 1, max_sequences);
    require_range("num_logits", num_logits, 0, max_rows);
    validate_rows(config);
    validate_blocks(config, num_blocks);
    for (int index = 0; index < num_logits; ++index) {
        require_entry("logit_rows", index, logit_rows[index], 0, num_rows - 1);
    }
}

/// A state is stored at the last certain row, which may be before the pass. The ring must keep, after it, the rows that a
/// convolution reads, and all rows that may be replayed by the next pass.
void Batch::validate_states(const DecoderConfig& config, int num_slots, int ring_rows) const {
    const int window = config.delta_shape().taps - 1;
    std::vector<bool> taken(num_slots);
    require_range("num_sequences", num_sequences, 1, num_slots);
    for (int row = 0, end = 0; row < num_rows; row = end) {
        const int sequence = sequences[row];
        while (end < num_rows && sequences[end] == sequence) {
            ++end;
        }
        const StatePlace& state = states[sequence];
        const std::string name = "states[" + std::to_string(sequence) + "]";
        require_range(name + ".slot", state.slot, 0, num_slots - 1);
        if (taken[state.slot]) {
            throw std::invalid_argument(
                name + ".slot is " + std::to_string(state.slot) +
                ", which other rows of the pass have; a slot's rows must be together");
        }
        taken[state.slot] = true;
        if (state.kept_slot >= 0) {
            require_range(name + ".kept_slot", state.kept_slot, 0, num_slots - 1);
            require_range(name + ".kept_position", state.kept_position, state.position, state.certain);
            if (taken[state.kept_slot]) {
                throw std::invalid_argument(name + ".kept_slot is " + std::to_string(state.kept_slot) +
                                            ", which another state of the pass has");
            }
            taken[state.kept_slot] = true;
        }
        const int first = positions[row];
        const int last = positions[end - 1];
        require_range(name + ".position", state.position, std::max(0, first + window - ring_rows), first);
        require_range(name + ".certain", state.certain,
                      std::max(state.position, last + 1 + window - ring_rows), last + 1);
    }
}

void Batch::validate_rows(const DecoderConfig& config) const {
    const int64_t reachable = static_cast<int64_t>(max_blocks) * kBlockSize;
    const int64_t last_position = std::min<int64_t>(config.max_position, reachable) - 1;
    for (int row = 0; row < num_rows; ++row) {
        require_entry("token_ids", row, token_ids[row], 0, config.vocab_size - 1);
        require_entry("sequences", row, sequences[row], 0, num_sequences - 1);
        require_entry("positions", row, positions[row], 0, last_position);
    }
}

void Batch::validate_blocks(const DecoderConfig& config, int num_blocks) const {
    std::vector<int> first(num_sequences, kUnseen);
    std::vector<int> last(num_sequences, kUnseen);
    for (int row = 0; row < num_rows; ++row) {
        const int sequence = sequences[row];
        if (first[sequence] == kUnseen) {
            first[sequence] = positions[row];
        } else {
            require_entry("positions", row, positions[row], last[sequence] + 1, last[sequence] + 1);
        }
        last[sequence] = positions[row];
    }
    const int window = longest_window(config);
    for (int sequence = 0; sequence < num_sequences; ++sequence) {
        if (first[sequence] == kUnseen) {
            continue;
        }
        const int oldest = window > 0 ? std::max(0, first[sequence] - window + 1) : 0;
        for (int block = oldest / kBlockSize; block <= last[sequence] / kBlockSize; ++block) {
            const int32_t id = block_tables[static_cast<size_t>(sequence) * max_blocks + block];
            if (id < 0 || id >= num_blocks) {
                require_range("block_tables[" + std::to_string(sequence) + ", " + std::to_string(block) + "]",
                              id, 0, num_blocks - 1);
            }
        }
    }
}

}  // namespace outrider
