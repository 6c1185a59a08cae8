// DecoderWeights: the decoder's weights, fused and packed, found by their canonical names.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "outrider/decoder/attention_mixer.h"
#include "outrider/decoder/convolution_mixer.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/decoder/delta_mixer.h"
#include "outrider/decoder/expert_weights.h"
#include "outrider/decoder/feature_input.h"
#include "outrider/decoder/latent_mixer.h"
#include "outrider/decoder/layer_inputs.h"
#include "outrider/decoder/markov_head.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/weights/fused_weight.h"
#include "outrider/weights/weight_builder.h"
#include "outrider/weights/weight_slots.h"

namespace outrider {

/// The weights and biases of a norm; null if it has none, or if there is no norm.
struct NormWeights {
    DeviceBuffer<float> weight;
    DeviceBuffer<float> bias;
};

/// The weights of one layer; those that the architecture lacks are null.
struct LayerWeights {
    NormWeights attention_norm;
    AttentionWeights attention;
    ConvolutionWeights convolution;
    DeltaWeights delta;
    LatentWeights latent;
    DeviceBuffer<float> post_attention_norm;
    NormWeights mlp_norm;
    FusedWeight gate_up;
    DeviceBuffer<float> gate_up_bias;
    FusedWeight down;
    DeviceBuffer<float> down_bias;
    ExpertWeights experts;
    DeviceBuffer<float> post_mlp_norm;
    OwnInputWeights input;
    DeviceBuffer<float> scale;  // [1]

    /// The matrices that multiply all rows of a pass; those that the layer lacks have no parts.
    std::array<const FusedWeight*, 17> linear() const {
        return {&attention.qkv,    &attention.gate,  &attention.output, &convolution.in, &convolution.out,
                &delta.projection, &delta.opening,   &delta.gates,      &delta.output,   &latent.query_down,
                &latent.query,     &latent.compress, &latent.output,    &gate_up,        &down,
                &input.gate,       &input.projection};
    }
};

class DecoderWeights {
  public:
    /// `target` has the tables that an attached drafter shares, and must outlive it. Throws std::invalid_argument
    /// if `kinds` has a name that is not a matrix of the configuration, or a kind that the device does not
    /// support.
    DecoderWeights(const std::shared_ptr<Device>& device, const DecoderConfig& config,
                   const WeightKinds& kinds, const DecoderWeights* target);
    DecoderWeights(const DecoderWeights&) = delete;
    DecoderWeights& operator=(const DecoderWeights&) = delete;

    /// The slots through which the weights are loaded.
    WeightSlots& slots() { return slots_; }
    const WeightSlots& slots() const { return slots_; }

    /// Returns the rows of a layer's matrix that multiplies all rows of a pass, in one or more runs. Throws
    /// std::invalid_argument if the name is not such a matrix.
    std::vector<MatrixRows> find_linear(const std::string& name);

    /// The number of bytes of weights that a pass over one row must read.
    int64_t bytes() const;

    const PackedWeight& embedding() const { return embedding_ ? *embedding_ : target_->embedding(); }
    const PackedWeight& lm_head() const {
        return lm_head_ ? *lm_head_ : target_ ? target_->whole_head() : *embedding_;
    }
    /// Whether this rank has the lm_head's rows for all tokens, as an attached drafter needs them.
    bool has_whole_head() const { return rank_.count == 1 || is_tied_; }
    const LayerInputWeights& inputs() const { return inputs_; }
    const FeatureWeights& features() const { return features_; }
    const MarkovWeights& markov() const { return markov_; }
    const NormWeights& final_norm() const { return final_norm_; }
    const LayerWeights& layer(int index) const { return layers_[index]; }

  private:
    const PackedWeight& whole_head() const { return rank_.count > 1 ? *embedding_ : lm_head(); }

    const DecoderWeights* target_;  // of an attached drafter
    Rank rank_;
    bool is_tied_;
    std::unique_ptr<PackedWeight> embedding_;  // null: the target's
    std::unique_ptr<PackedWeight> lm_head_;    // the rank's tokens; null: the embedding, or the target's
    LayerInputWeights inputs_;
    FeatureWeights features_;
    MarkovWeights markov_;
    NormWeights final_norm_;
    std::vector<LayerWeights> layers_;
    WeightSlots slots_;
};

}  // namespace outrider
