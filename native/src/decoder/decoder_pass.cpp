// The computation of a pass: the transformer, written once, in terms of the device's operations.
#include <stdexcept>

#include "outrider/decoder/decoder.h"
#include "require_range.h"

namespace outrider {

void Decoder::enqueue(int num_logits) {
    embed();
    for (int layer = 0; layer < config_.num_layers(); ++layer) {
        mix(layer);
        mlp(layer);
    }
    lm_head(num_logits);
}

void Decoder::embed() {
    const bool has_hidden_rows = config_.has_hidden_rows();
    float* const embedded = has_hidden_rows ? feature_input_->embedded() : workspace_.residual.data();
    device_->embed({.table = &weights_.embedding(),
                    .token_ids = workspace_.rows.token_ids(),
                    .scale = config_.embedding_scale,
                    .residual = embedded,
                    .rows = rows()});
    if (has_hidden_rows) {
        const FeatureWeights& features = weights_.features();
        const DeviceBuffer<float>& norm = config_.features->fc_reads_both
                                              ? features.embedding_norm
                                              : weights_.layer(0).attention_norm.weight;
        feature_input_->begin(features, norm.data(), workspace_.residual.data(), rows(), linear_);
    }
    if (layer_inputs_) {
        layer_inputs_->begin(weights_.inputs(), workspace_.rows.token_ids(), embedded, rows(), linear_);
    }
    if (config_.has(LayerKind::attention)) {
        attention_.rotate(workspace_.rows.places());
    }
    if (config_.has(LayerKind::latent_attention)) {
        latent_.rotate(workspace_.rows.places());
    }
}

/// Copies the residual stream if it is kept after so many layers.
void Decoder::keep_feature(int boundary) {
    const int width = config_.hidden_size;
    const auto count = static_cast<int>(boundaries_.size());
    for (int index = 0; index < count; ++index) {
        if (boundaries_[index] == boundary) {
            device_->residual_norm({.residual = workspace_.residual.data(),
                                    .out = {features_.data() + index * width, Format::f32, count * width},
                                    .rows = rows(),
                                    .width = width});
        }
    }
}

/// It is not recorded: the rows that a step reads are few, and their number differs.
void Decoder::store_context(const Batch& batch) {
    if (!config_.has_context()) {
        throw std::invalid_argument("features.block: the decoder is no drafter with a context");
    }
    require_range("num_rows", batch.num_rows, 1, feature_input_->num_rows());
    place(batch, used_blocks(batch));
    attention_.rotate(workspace_.rows.places());
    for (int layer = 0; layer < config_.num_layers(); ++layer) {
        attention_.store(weights_.layer(layer).attention, config_.layers[layer], cache_.blocks(layer),
                         feature_input_->normed(), workspace_.rows.places(), linear_);
    }
}

/// Attention or another mixer: reads the residual and computes the value to add to it.
void Decoder::mix(int index) {
    const LayerWeights& layer = weights_.layer(index);
    // The previous layer's output is added in the same operation as this layer's norm.
    float* const delta = workspace_.delta.data();
    const bool reads_both = config_.reads_both(index);
    if (!reads_both) {
        end_layer(index - 1, layer.attention_norm);
    }
    keep_feature(index);
    const LayerConfig& config = config_.layers[index];
    const Activations input = reads_both ? feature_input_->normed() : workspace_.normed.view();
    const RowPlaces& places = workspace_.rows.places();
    void* const blocks = config.target_layer ? target_->cache_.blocks(*config.target_layer)
                                             : cache_.blocks(config.kv_layer.value_or(index));
    switch (config.kind) {
        case LayerKind::attention:
            attention_.run(layer.attention, config, blocks, input, places, linear_, delta);
            break;
        case LayerKind::short_convolution:
            convolution_.run(layer.convolution, config, blocks, input, places, linear_, delta);
            break;
        case LayerKind::gated_delta:
            delta_.run(layer.delta, states_->blocks(index),
                       {workspace_.rows.states(), workspace_.rows.num_states(), ring_rows_}, input, places,
                       linear_, delta);
            break;
        case LayerKind::latent_attention:
            latent_.run(layer.latent, blocks, input, places, linear_, delta);
            break;
    }
}

/// The MLP or the experts: reads the residual and computes the value to add to it. A parallel MLP reads
/// attention's input, before the next norm overwrites it.
void Decoder::mlp(int index) {
    const LayerWeights& layer = weights_.layer(index);
    const int size = config_.mlp_size(index);
    if (config_.parallel_mlp) {
        activate(layer, size);
    }
    add_and_normalise(workspace_.delta.data(), layer.post_attention_norm.data(), nullptr, layer.mlp_norm);
    if (size > 0) {
        if (!config_.parallel_mlp) {
            activate(layer, size);
        }
        linear_.multiply_own(workspace_.gated.at(size).view(), rows(), layer.down, layer.down_bias.data(),
                             workspace_.delta.data(), config_.hidden_size);
    }
    const bool are_experts_added = config_.has_experts(index) && !config_.experts->have_norms;
    if (!are_experts_added) {
        ranks_.exchange(workspace_.delta.data(), config_.hidden_size, rows());
    }
    if (config_.has_experts(index) && config_.experts->have_norms) {
        experts_->run_normed(layer.experts, workspace_.residual.data(), rows(), ranks_,
                             workspace_.delta.data());
    } else if (are_experts_added) {
        experts_->run(layer.experts, workspace_.normed.view(), rows(), size > 0, ranks_,
                      workspace_.delta.data());
    }
    if (layer_inputs_) {
        add_and_normalise(workspace_.delta.data(), layer.post_mlp_norm.data(), nullptr, {});
        layer_inputs_->run(layer.input, index, workspace_.normed.view(), rows(), linear_,
                           workspace_.delta.data());
    }
}

/// The first half of the MLP for all rows: gate and up products and the activation.
void Decoder::activate(const LayerWeights& layer, int size) {
    const Activations gated = workspace_.gated.at(size).view();
    linear_.multiply_and_activate(workspace_.normed.view(), layer.gate_up, layer.gate_up_bias.data(),
                                  workspace_.gate_up.data(),
                                  {.activation = config_.activation,
                                   .is_gated = config_.gated_mlp,
                                   .out = from_column(gated, config_.rank.first(size)),
                                   .rows = rows(),
                                   .width = config_.rank.own(size)});
    ranks_.exchange(gated, size, rows());
}

/// The final norm and the lm_head product, for the rows whose logits are requested.
void Decoder::lm_head(int num_logits) {
    end_layer(config_.num_layers() - 1, weights_.final_norm());
    keep_feature(config_.num_layers());
    if (config_.carries_hidden()) {
        feature_input_->carry(weights_.features(), workspace_.residual.data(),
                              weights_.final_norm().weight.data(), workspace_.rows.logit_rows(), num_logits,
                              linear_);
    }
    device_->gather_rows({.in = workspace_.normed.view(),
                          .indices = workspace_.rows.logit_rows(),
                          .out = workspace_.lm_head_input.view(),
                          .rows = num_logits,
                          .width = config_.hidden_size});
    const PackedWeight& head = short_head_ ? short_head_->matrix() : weights_.lm_head();
    float* const logits = columns() ? columns()->logits() : workspace_.logits->data();
    const int width = columns() ? head.out_features() : config_.vocab_size;
    device_->product({.input = workspace_.lm_head_input.view(),
                      .weight = &head,
                      .out = logits + config_.rank.first(width),
                      .out_stride = width,
                      .rows = num_logits});
    ranks_.exchange(logits, width, num_logits, true);
    if (config_.logit_softcap > 0.0f && config_.rank.index == 0) {
        device_->soft_cap(
            {.values = logits, .cap = config_.logit_softcap, .count = int64_t{num_logits} * width});
    }
    if (columns() && !markov_) {
        columns()->spread(workspace_.logits->data(), num_logits);
    }
}

/// Adds what a layer gives last to the residual, and normalises it for what comes next; before the first layer there
/// is nothing to add.
void Decoder::end_layer(int index, const NormWeights& norm) {
    if (index < 0) {
        add_and_normalise(nullptr, nullptr, nullptr, norm);
        return;
    }
    const LayerWeights& layer = weights_.layer(index);
    const DeviceBuffer<float>& delta_norm = layer_inputs_ ? layer.input.post_norm : layer.post_mlp_norm;
    add_and_normalise(workspace_.delta.data(), delta_norm.data(), layer.scale.data(), norm);
}

void Decoder::add_and_normalise(const float* delta, const float* delta_norm, const float* scale,
                                const NormWeights& norm) {
    device_->residual_norm({.residual = workspace_.residual.data(),
                            .delta = delta,
                            .delta_norm = delta_norm,
                            .scale = scale,
                            .norm = norm.weight.data(),
                            .norm_bias = norm.bias.data(),
                            .kind = config_.norm,
                            .eps = config_.norm_eps,
                            .out = workspace_.normed.view(),
                            .rows = rows(),
                            .width = config_.hidden_size});
}

}  // namespace outrider
