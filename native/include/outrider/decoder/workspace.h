// Workspace: the buffers of one pass, reused from pass to pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "outrider/decoder/activation_buffer.h"
#include "outrider/decoder/batch.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/device/next_rows.h"
#include "outrider/device/pass_recorder.h"

namespace outrider {

/// A batch's arrays in device memory, contiguous, so that one upload copies them all.
class DeviceRows {
  public:
    /// Rows look ahead, or stay in their place when draws advance them: then they attend to the positions before it.
    DeviceRows(bool look_ahead, bool stay_in_place)
        : num_arrays_(stay_in_place ? 6
                      : look_ahead  ? 5
                                    : 4),
          stay_in_place_(stay_in_place) {}

    /// Allocates memory for batches of such sizes; returns whether the arrays have moved.
    bool reserve(const std::shared_ptr<Device>& device, int num_rows, int num_sequences, int num_blocks,
                 int num_states);
    /// Pads the batch to `shape`: padding rows are inactive, and padding logits repeat those of the first
    /// row.
    void upload(const std::shared_ptr<Device>& device, const Batch& batch, const PassShape& shape);
    /// Keeps only the first `rows` rows.
    void narrow(int rows) { places_.rows = rows; }

    const int32_t* token_ids() const { return at(0); }
    const int32_t* logit_rows() const { return at(3); }
    const RowPlaces& places() const { return places_; }
    const StatePlace* states() const { return reinterpret_cast<const StatePlace*>(at(num_arrays_)); }
    /// The number of states' places; those beyond the pass's sequences have no rows.
    int num_states() const { return std::min(places_.rows, state_capacity_); }
    NextRows next() { return {arrays_.data(), arrays_.data() + (stay_in_place_ ? 5 : 1) * capacity_}; }

  private:
    const int32_t* at(int array) const { return arrays_.data() + array * capacity_; }

    int num_arrays_;  // of rows; the fifth has the ends, the sixth positions that draws may advance
    bool stay_in_place_;
    DeviceBuffer<int32_t> arrays_;  // [num_arrays, capacity], then the states' places, then the block tables
    std::vector<int32_t> staged_;   // host copy to upload
    int64_t capacity_ = 0;          // rows
    int state_capacity_ = 0;
    RowPlaces places_;
};

/// The number of block-table columns that a pass over the batch needs.
int used_blocks(const Batch& batch);

struct Workspace {
    Workspace(const DecoderConfig& config, Format format);

    /// Allocates buffers for passes of such sizes; returns whether any has moved.
    bool reserve(const std::shared_ptr<Device>& device, const DecoderConfig& config, const PassShape& shape);

    DeviceRows rows;
    DeviceBuffer<float> residual;                 // [rows, hidden]
    DeviceBuffer<float> delta;                    // [rows, hidden], to be added to the residual
    DeviceBuffer<float> gate_up;                  // [rows, 2 * intermediate]
    ActivationBuffer normed;                      // [rows, hidden]
    std::map<int, ActivationBuffer> gated;        // [rows, size] for each size of an MLP
    ActivationBuffer lm_head_input;               // [logits, hidden]
    std::shared_ptr<DeviceBuffer<float>> logits;  // [logits, vocab]
};

}  // namespace outrider
