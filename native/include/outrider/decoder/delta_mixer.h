// DeltaMixer: the gated delta rule of a decoder's layers, which carry a state along instead of attending (Qwen 3.5).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "outrider/decoder/activation_buffer.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/device/state_operations.h"
#include "outrider/weights/weight_builder.h"

namespace outrider {

class Linear;

/// The weights of one layer.
struct DeltaWeights {
    FusedWeight projection;    // queries, keys and values, of the rank's heads, as all else but the output
    FusedWeight opening;       // the output's gates
    FusedWeight gates;         // the rate, then the decay, of each value head
    DeviceBuffer<float> taps;  // [taps, channels]
    DeviceBuffer<float> decay_log;   // [value_heads]
    DeviceBuffer<float> decay_bias;  // [value_heads]
    DeviceBuffer<float> norm;        // [value_dim]
    FusedWeight output;

    void add(WeightBuilder& builder, const DecoderConfig& config, const std::string& prefix);
};

/// The states of a pass's sequences, and the rows that each state's ring keeps.
struct PassStates {
    const StatePlace* places = nullptr;  // [sequences]
    int sequences = 0;
    int ring_rows = 0;
};

/// All layers with the gated delta rule are of one shape and share the buffers.
class DeltaMixer {
  public:
    DeltaMixer(std::shared_ptr<Device> device, const DecoderConfig& config, Format format);

    /// Allocates memory for passes of such sizes; returns whether any buffer has moved.
    bool reserve(int rows, int sequences, int ring_rows, Linear& linear);

    /// delta = output of the rule over the input, whose states are in the layer's slots.  # delta: [rows, hidden]
    void run(const DeltaWeights& weights, void* slots, const PassStates& states, const Activations& input,
             const RowPlaces& places, Linear& linear, float* delta);

  private:
    std::shared_ptr<Device> device_;
    DeltaShape shape_;  // of the rank
    int hidden_size_;
    int all_values_;  // of all ranks' heads
    float eps_;
    DeviceBuffer<float> projected_;  // [rows, channels]
    DeviceBuffer<float> opened_;     // [rows, value_size], the output's gates
    DeviceBuffer<float> gates_;      // [rows, 2 * value_heads]
    DeviceBuffer<float> mixed_;      // [rows, value_size]
    DeviceBuffer<float> scratch_;    // of the rule
    ActivationBuffer normed_;        // [rows, value_size of all ranks]
};

}  // namespace outrider
