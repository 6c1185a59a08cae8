#include "outrider/workspace.h"

#include <algorithm>

namespace outrider {
namespace {

void refill(const std::shared_ptr<Device>& device, DeviceBuffer<int32_t>& to, const int32_t* from,
            size_t size) {
    to.reserve(device, std::max<size_t>(size, 1));
    device->upload(to.data(), from, size * sizeof(int32_t));
}

}  // namespace

void DeviceRows::upload(const std::shared_ptr<Device>& device, const Batch& batch) {
    gather_tables(batch);
    refill(device, token_ids_, batch.token_ids.data(), batch.num_rows);
    refill(device, positions_, batch.positions.data(), batch.num_rows);
    refill(device, sequences_, batch.sequences.data(), batch.num_rows);
    refill(device, logit_rows_, batch.logit_rows.data(), batch.num_logits);
    refill(device, block_tables_, tables_.data(), tables_.size());
    places_.positions = positions_.data();
    places_.sequences = sequences_.data();
    places_.block_tables = block_tables_.data();
    places_.rows = batch.num_rows;
}

/// The tables have room for the longest context; a pass needs the columns up to its last position.
void DeviceRows::gather_tables(const Batch& batch) {
    const auto first = batch.positions.begin();
    places_.max_blocks = *std::max_element(first, first + batch.num_rows) / kBlockSize + 1;
    tables_.clear();
    for (int sequence = 0; sequence < batch.num_sequences; ++sequence) {
        const auto table = batch.block_tables.begin() + static_cast<int64_t>(sequence) * batch.max_blocks;
        tables_.insert(tables_.end(), table, table + places_.max_blocks);
    }
}

Workspace::Workspace(const DecoderConfig& config, Format format)
    : angles(config.rotary_tables.size()),
      normed(format, config.hidden_size),
      attended(format, config.q_size()),
      gated(format, config.intermediate_size),
      asked(format, config.hidden_size) {}

void Workspace::reserve(const std::shared_ptr<Device>& device, const DecoderConfig& config, int num_rows,
                        int num_logits) {
    const size_t count = num_rows;
    residual.reserve(device, count * config.hidden_size);
    delta.reserve(device, count * config.hidden_size);
    qkv.reserve(device, count * config.qkv_size());
    gate_up.reserve(device, count * 2 * config.intermediate_size);
    for (size_t table = 0; table < angles.size(); ++table) {
        angles[table].reserve(device, count * 2 * config.rotary_tables[table].frequencies.size());
    }
    normed.reserve(device, num_rows);
    attended.reserve(device, num_rows);
    gated.reserve(device, num_rows);
    asked.reserve(device, num_logits);
    const size_t logits_size = static_cast<size_t>(num_logits) * config.vocab_size;
    if (!logits || logits->size() < logits_size) {
        logits =
            std::make_shared<DeviceBuffer<float>>(device, logits_size);  // older handles keep the old memory
    }
}

}  // namespace outrider
