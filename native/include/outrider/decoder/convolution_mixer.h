// ConvolutionMixer: the short convolutions that replace attention in some layers (LFM2).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "outrider/decoder/activation_buffer.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/weights/weight_builder.h"

namespace outrider {

class Linear;

/// The weights of one layer; those that the architecture lacks are null.
struct ConvolutionWeights {
    FusedWeight in;
    DeviceBuffer<float> in_bias;
    DeviceBuffer<float> taps;  // [taps, hidden]
    DeviceBuffer<float> bias;
    FusedWeight out;
    DeviceBuffer<float> out_bias;

    void add(WeightBuilder& builder, const DecoderConfig& config, int num_taps, const std::string& prefix);
};

/// The buffers that all layers with a short convolution share.
class ConvolutionMixer {
  public:
    ConvolutionMixer(std::shared_ptr<Device> device, const DecoderConfig& config, Format format, KvFormat kv);

    /// Allocates memory for so many rows; returns whether any buffer has moved.
    bool reserve(int rows, Linear& linear);
    /// The bytes of a layer's inputs in one cache block.
    size_t block_bytes() const { return conv_block_bytes(stored_, hidden_size_); }

    /// delta = convolution of the input, which is stored in the layer's blocks.  # delta: [rows, hidden]
    void run(const ConvolutionWeights& weights, const LayerConfig& layer, void* blocks,
             const Activations& input, const RowPlaces& places, Linear& linear, float* delta);

  private:
    std::shared_ptr<Device> device_;
    int hidden_size_;
    Format stored_;
    DeviceBuffer<float> projected_;  // [rows, 3 * hidden]
    ActivationBuffer convolved_;     // [rows, hidden]
};

}  // namespace outrider
