// LatentMixer: attention to latent vectors, one of each position for all heads (arXiv 2405.04434, section 2.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "outrider/decoder/activation_buffer.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/device/expert_operations.h"
#include "outrider/device/pass_recorder.h"
#include "outrider/weights/weight_builder.h"

namespace outrider {

class Linear;

/// The weights of one layer.
struct LatentWeights {
    FusedWeight query_down;           // null where queries are not compressed
    DeviceBuffer<float> query_norm;   // likewise
    FusedWeight query;                // [heads * query_dim, query_rank or hidden]
    FusedWeight compress;             // [width, hidden]
    DeviceBuffer<float> latent_norm;  // [rank]
    std::vector<FusedWeight> keys;    // of each head: [rank, key_dim]
    std::vector<FusedWeight> values;  // of each head: [value_dim, rank]
    FusedWeight output;

    void add(WeightBuilder& builder, const DecoderConfig& config, const std::string& prefix);
    /// The bytes of the keys' and values' matrices.
    int64_t bytes_of_heads() const;
};

/// Heads attend to the latent vectors themselves: a key's matrix is multiplied into the query instead, and a value's
/// into what a head gives, which is the same product in another order. So nothing of earlier positions is multiplied
/// again, and a position keeps its latent vector and the part of its key that turns.
class LatentMixer {
  public:
    /// `config` must outlive it.
    LatentMixer(std::shared_ptr<Device> device, const DecoderConfig& config, Format format, KvFormat kv);

    /// Allocates memory for passes of such sizes; returns whether any buffer has moved.
    bool reserve(const PassShape& shape, Linear& linear);
    /// The bytes of a layer in one cache block.
    size_t block_bytes() const { return device_->kv_block_bytes(kv_layer(nullptr)); }

    /// Computes the angles of a pass, for all layers.
    void rotate(const RowPlaces& places);
    /// delta = attention of the input, whose latent vectors are stored in the layer's blocks.
    /// # delta: [rows, hidden]
    void run(const LatentWeights& weights, void* blocks, const Activations& input, const RowPlaces& places,
             Linear& linear, float* delta);

  private:
    /// Computes the queries, their latent parts by each head's keys.
    void ask(const LatentWeights& weights, const Activations& input, int rows, Linear& linear);
    /// Multiplies each head's part of the rows by its matrix.
    /// # input: [rows, heads * in_step], out: [rows, heads * out_step]
    void multiply_heads(const std::vector<FusedWeight>& heads, const Activations& input, int rows,
                        int in_step, float* out, int out_step);
    /// Rounds rows to the format of a product's input.
    void round(float* values, const float* norm, const ActivationBuffer& out, int rows, int width);
    KvLayer kv_layer(void* blocks) const;

    std::shared_ptr<Device> device_;
    const LatentShape shape_;
    const Rope* rope_;
    int num_heads_;
    int hidden_size_;
    float query_scale_;
    KvFormat kv_;
    std::vector<ExpertMatrix> matrices_;  // of heads
    DeviceBuffer<float> frequencies_;     // [half_dim]
    DeviceBuffer<float> angles_;          // [rows, 2, half_dim]
    DeviceBuffer<float> query_down_;      // [rows, query_rank]
    ActivationBuffer query_input_;        // likewise
    DeviceBuffer<float> queries_;         // [rows, heads, query_dim]
    ActivationBuffer rounded_;            // likewise
    DeviceBuffer<float> latent_queries_;  // [rows, heads, width]
    DeviceBuffer<float> compressed_;      // [rows, width]
    ActivationBuffer attended_;           // [rows, heads, rank]
    DeviceBuffer<float> values_;          // [rows, heads, value_dim]
    ActivationBuffer heads_;              // likewise
    DeviceBuffer<float> scratch_;         // of the device's attention
};

}  // namespace outrider
