// AttentionMixer: the attention of a decoder's layers.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "outrider/decoder/activation_buffer.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/device/pass_recorder.h"
#include "outrider/weights/weight_builder.h"

namespace outrider {

class Linear;

/// The weights of one layer; those that the architecture lacks are null.
struct AttentionWeights {
    FusedWeight qkv;
    DeviceBuffer<float> qkv_bias;
    DeviceBuffer<float> q_norm;
    DeviceBuffer<float> k_norm;  // null in layers that read another layer's keys
    DeviceBuffer<float> sinks;
    FusedWeight gate;  // of each value of the heads' outputs
    FusedWeight output;
    DeviceBuffer<float> output_bias;

    void add(WeightBuilder& builder, const DecoderConfig& config, int layer, const std::string& prefix);
};

/// All layers with attention share the rotary angles of a pass, and the buffers.
class AttentionMixer {
  public:
    /// `config` must outlive it.
    AttentionMixer(std::shared_ptr<Device> device, const DecoderConfig& config, Format format, KvFormat kv);

    /// Allocates memory for passes of such sizes; returns whether any buffer has moved.
    bool reserve(const PassShape& shape, Linear& linear);
    /// The bytes of a layer's keys and values in one cache block.
    size_t block_bytes(const LayerConfig& layer) const;

    /// Computes the rotary angles of a pass's rows.
    void rotate(const RowPlaces& places);
    /// delta = attention of the input, whose keys and values are stored in the layer's blocks.
    /// # delta: [rows, hidden]
    void run(const AttentionWeights& weights, const LayerConfig& layer, void* blocks,
             const Activations& input, const RowPlaces& places, Linear& linear, float* delta);
    /// Only stores the keys and values of the input. The queries must be a separate part of `qkv`.
    void store(const AttentionWeights& weights, const LayerConfig& layer, void* blocks,
               const Activations& input, const RowPlaces& places, Linear& linear);

  private:
    void rotate_and_store(const AttentionWeights& weights, const LayerConfig& layer, void* blocks,
                          const RowPlaces& places);
    KvLayer kv_layer(const LayerConfig& layer, void* blocks) const;
    /// The largest of a size of the layers' shapes.
    template <typename Size>
    int largest(const Size& size) const;

    std::shared_ptr<Device> device_;
    const DecoderConfig& config_;
    KvFormat kv_;
    std::vector<DeviceBuffer<float>> frequencies_;  // one for each rope: [half_dim]
    std::vector<DeviceBuffer<float>> angles_;       // one for each rope: [rows, 2, half_dim]
    DeviceBuffer<float> ones_;                      // [head_dim], of the norm of values
    DeviceBuffer<float> qkv_;                       // [rows, qkv]
    DeviceBuffer<float> scratch_;                   // of the device's attention
    DeviceBuffer<float> gates_;                     // [rows, q]
    std::map<int, ActivationBuffer> attended_;      // [rows, q of all ranks] for each size of queries
};

}  // namespace outrider
