#include "outrider/decoder/workspace.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

constexpr size_t kStateInts = sizeof(StatePlace) / sizeof(int32_t);

/// The states of the batch's sequences, with the rows that each has.
void place_states(const Batch& batch, StatePlace* to) {
    std::copy_n(batch.states.begin(), batch.num_sequences, to);
    for (int row = batch.num_rows - 1; row >= 0; --row) {
        StatePlace& state = to[batch.sequences[row]];
        state.first_row = row;
        state.rows += 1;
    }
}

/// The last position that each row attends to: of its sequence in the batch, or the one before its own.
void place_ends(const Batch& batch, bool are_before, int32_t* to) {
    if (are_before) {
        std::transform(batch.positions.begin(), batch.positions.begin() + batch.num_rows, to,
                       [](int32_t position) { return position - 1; });
        return;
    }
    std::vector<int32_t> ends(batch.num_sequences);
    for (int row = 0; row < batch.num_rows; ++row) {
        ends[batch.sequences[row]] = batch.positions[row];
    }
    for (int row = 0; row < batch.num_rows; ++row) {
        to[row] = ends[batch.sequences[row]];
    }
}

}  // namespace

int used_blocks(const Batch& batch) {
    const auto first = batch.positions.begin();
    return *std::max_element(first, first + batch.num_rows) / kBlockSize + 1;
}

bool DeviceRows::reserve(const std::shared_ptr<Device>& device, int num_rows, int num_sequences,
                         int num_blocks, int num_states) {
    const int64_t capacity = std::max<int64_t>(capacity_, num_rows);
    const int state_capacity = std::max(state_capacity_, num_states);
    const size_t size = num_arrays_ * capacity + state_capacity * kStateInts +
                        static_cast<size_t>(num_sequences) * num_blocks;
    const bool has_grown = arrays_.reserve(device, size);
    // Assigned only after the allocation has succeeded: if it throws, later passes need not request the
    // memory again.
    const bool has_more_rows = capacity > std::exchange(capacity_, capacity);
    const bool has_more_states = state_capacity > std::exchange(state_capacity_, state_capacity);
    return has_grown || has_more_rows || has_more_states;
}

/// Uploads only the block-table columns of the pass; the batch's tables have room for the longest context.
void DeviceRows::upload(const std::shared_ptr<Device>& device, const Batch& batch, const PassShape& shape) {
    const auto sequences = static_cast<size_t>(batch.num_sequences);
    const size_t tables_begin = num_arrays_ * capacity_ + state_capacity_ * kStateInts;
    staged_.assign(tables_begin + sequences * shape.blocks, 0);
    const auto place = [&](int array) { return staged_.begin() + array * capacity_; };
    std::copy_n(batch.token_ids.begin(), batch.num_rows, place(0));
    std::fill(std::copy_n(batch.positions.begin(), batch.num_rows, place(1)), place(2), kInactive);
    std::copy_n(batch.sequences.begin(), batch.num_rows, place(2));
    std::copy_n(batch.logit_rows.begin(), batch.num_logits, place(3));
    const bool has_ends = num_arrays_ > 4;
    if (has_ends) {
        place_ends(batch, stay_in_place_, &*place(4));
    }
    if (stay_in_place_) {
        std::copy_n(batch.positions.begin(), batch.num_rows, place(5));
    }
    const int columns = std::min(shape.blocks, batch.max_blocks);
    for (int sequence = 0; sequence < batch.num_sequences; ++sequence) {
        const auto table = batch.block_tables.begin() + static_cast<int64_t>(sequence) * batch.max_blocks;
        std::copy_n(table, columns,
                    staged_.begin() + tables_begin + static_cast<int64_t>(sequence) * shape.blocks);
    }
    if (state_capacity_ > 0) {
        place_states(batch, reinterpret_cast<StatePlace*>(staged_.data() + num_arrays_ * capacity_));
    }
    device->upload(arrays_.data(), staged_.data(), staged_.size() * sizeof(int32_t));
    places_ = {.positions = at(1),
               .ends = has_ends ? at(4) : nullptr,
               .sequences = at(2),
               .block_tables = arrays_.data() + tables_begin,
               .max_blocks = shape.blocks,
               .rows = shape.rows};
}

Workspace::Workspace(const DecoderConfig& config, Format format)
    : rows(config.looks_ahead(), config.reads_target()),
      normed(format, config.hidden_size),
      lm_head_input(format, config.hidden_size) {
    for (int layer = 0; layer < config.num_layers(); ++layer) {
        const int size = config.mlp_size(layer);
        if (size > 0) {
            gated.try_emplace(size, format, size);
        }
    }
}

bool Workspace::reserve(const std::shared_ptr<Device>& device, const DecoderConfig& config,
                        const PassShape& shape) {
    const size_t count = shape.rows;
    bool moved = residual.reserve(device, count * config.hidden_size);
    moved |= delta.reserve(device, count * config.hidden_size);
    moved |= gate_up.reserve(device, count * config.gate_up_size());
    moved |= normed.reserve(device, shape.rows);
    for (auto& each : gated) {
        moved |= each.second.reserve(device, shape.rows);
    }
    moved |= lm_head_input.reserve(device, shape.logits);
    const size_t logits_size = static_cast<size_t>(shape.logits) * config.vocab_size;
    if (!logits || logits->size() < logits_size) {
        logits =
            std::make_shared<DeviceBuffer<float>>(device, logits_size);  // older handles keep the old memory
        moved = true;
    }
    return moved;
}

}  // namespace outrider
