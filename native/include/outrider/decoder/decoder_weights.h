// DecoderWeights: the decoder's weights, fused and packed, found by their canonical names.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "outrider/decoder/decoder_config.h"
#include "outrider/decoder/expert_weights.h"
#include "outrider/decoder/fused_weight.h"
#include "outrider/decoder/weight_slots.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"

namespace outrider {

/// The weights and biases of a norm; null if it has none, or if there is no norm.
struct NormWeights {
    DeviceBuffer<float> weight;
    DeviceBuffer<float> bias;
};

/// The weights of a short convolution, which replaces a layer's attention.
struct ConvWeights {
    FusedWeight in;
    DeviceBuffer<float> in_bias;
    DeviceBuffer<float> taps;  // [taps, hidden]
    DeviceBuffer<float> bias;
    FusedWeight out;
    DeviceBuffer<float> out_bias;
};

/// The weights of one layer; those that the architecture lacks are null.
struct LayerWeights {
    NormWeights attention_norm;
    DeviceBuffer<float> q_norm;
    DeviceBuffer<float> k_norm;
    DeviceBuffer<float> sinks;
    DeviceBuffer<float> post_attention_norm;
    NormWeights mlp_norm;
    DeviceBuffer<float> post_mlp_norm;
    DeviceBuffer<float> qkv_bias;
    DeviceBuffer<float> output_bias;
    DeviceBuffer<float> gate_up_bias;
    DeviceBuffer<float> down_bias;
    FusedWeight qkv;
    FusedWeight output;
    ConvWeights conv;
    FusedWeight gate_up;
    FusedWeight down;
    ExpertWeights experts;
};

/// The storage kinds of the matrices: `format` for all, except those listed in `own` by canonical name.
struct WeightKinds {
    WeightFormat format;
    std::unordered_map<std::string, WeightKind> own = {};
};

class DecoderWeights {
  public:
    /// Throws std::invalid_argument if `kinds` has a name that is not a matrix of the configuration, or a
    /// kind that the device does not support.
    DecoderWeights(const std::shared_ptr<Device>& device, const DecoderConfig& config, WeightKinds kinds);
    DecoderWeights(const DecoderWeights&) = delete;
    DecoderWeights& operator=(const DecoderWeights&) = delete;

    /// The slots through which the weights are loaded.
    WeightSlots& slots() { return slots_; }
    const WeightSlots& slots() const { return slots_; }

    /// Returns the rows of a layer's matrix that multiplies all rows of a pass. Throws std::invalid_argument
    /// if the name is not such a matrix.
    MatrixRows find_linear(const std::string& name);

    /// The number of bytes of weights that a pass over one row must read.
    int64_t bytes() const;

    const PackedWeight& embedding() const { return *embedding_; }
    const PackedWeight& lm_head() const { return lm_head_ ? *lm_head_ : *embedding_; }
    const NormWeights& final_norm() const { return final_norm_; }
    const LayerWeights& layer(int index) const { return layers_[index]; }

  private:
    /// One of the matrices that a fused weight joins.
    struct Rows {
        std::string name;
        int count;
    };

    void add_layer(const DecoderConfig& config, int index);
    void add_attention(const DecoderConfig& config, LayerWeights& layer, const std::string& prefix);
    void add_convolution(const DecoderConfig& config, ConvWeights& weights, int taps,
                         const std::string& prefix);
    void add_mlp(const DecoderConfig& config, LayerWeights& layer, const std::string& prefix);
    void add_experts(const DecoderConfig& config, ExpertWeights& weights, const std::string& prefix);
    void add_expert(const DecoderConfig& config, Expert& expert, const std::string& prefix);
    void add_norm(const DecoderConfig& config, const std::string& name, NormWeights& norm,
                  float factor = 1.0f);
    void add_head_norm(const DecoderConfig& config, const std::string& name, DeviceBuffer<float>& norm,
                       int size);
    void add_own_vector(const std::string& name, DeviceBuffer<float>& buffer, int size, float factor = 1.0f);
    void add_fused(FusedWeight& weight, int in_features, const std::vector<Rows>& parts) {
        add_fused(weight, in_features, parts, kinds_.format);
    }
    void add_fused(FusedWeight& weight, int in_features, const std::vector<Rows>& parts, WeightFormat format);
    std::unique_ptr<PackedWeight> add_table(const std::string& name, WeightFormat format,
                                            const DecoderConfig& config);
    WeightKind kind_of(const std::string& name, WeightFormat format) const;

    std::shared_ptr<Device> device_;
    WeightKinds kinds_;
    std::unique_ptr<PackedWeight> embedding_;
    std::unique_ptr<PackedWeight> lm_head_;
    NormWeights final_norm_;
    std::vector<LayerWeights> layers_;
    WeightSlots slots_;
};

}  // namespace outrider
