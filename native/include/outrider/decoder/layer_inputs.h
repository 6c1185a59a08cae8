// LayerInputs: inputs of each layer that depend on a row's token, as Gemma 3n and Gemma 4 have them.
#pragma once

#include <memory>
#include <string>

#include "outrider/decoder/activation_buffer.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/weights/fused_weight.h"
#include "outrider/weights/weight_builder.h"

namespace outrider {

class Linear;

/// The weights that all layers share; null if layers have no such inputs.
struct LayerInputWeights {
    std::unique_ptr<PackedWeight> table;  // [vocab, layers * size]
    FusedWeight projection;               // of the token's vector
    DeviceBuffer<float> norm;             // [size]

    void add(WeightBuilder& builder, const DecoderConfig& config, WeightFormat table_format);
};

/// The weights of one layer.
struct OwnInputWeights {
    FusedWeight gate;
    FusedWeight projection;
    DeviceBuffer<float> post_norm;  // [hidden]

    void add(WeightBuilder& builder, const DecoderConfig& config, const std::string& prefix);
};

class LayerInputs {
  public:
    /// `config` must outlive it.
    LayerInputs(std::shared_ptr<Device> device, const DecoderConfig& config, Format format);

    /// Allocates memory for so many rows; returns whether any buffer has moved.
    bool reserve(int rows, Linear& linear);
    /// Computes the inputs of all layers from the tokens and their vectors.  # embedded: [rows, hidden]
    void begin(const LayerInputWeights& weights, const int32_t* token_ids, float* embedded, int rows,
               Linear& linear);
    /// delta = the layer's input, gated by its residual.  # residual, delta: [rows, hidden]
    void run(const OwnInputWeights& weights, int layer, const Activations& residual, int rows, Linear& linear,
             float* delta);

  private:
    int all_sizes() const { return config_.num_layers() * config_.layer_input_size; }

    std::shared_ptr<Device> device_;
    const DecoderConfig& config_;
    DeviceBuffer<float> inputs_;     // [rows, layers, size]
    DeviceBuffer<float> projected_;  // [rows, layers, size]
    DeviceBuffer<float> gates_;      // [rows, size]
    ActivationBuffer embedded_;      // [rows, hidden]
    ActivationBuffer gated_;         // [rows, size]
};

}  // namespace outrider
