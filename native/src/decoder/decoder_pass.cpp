// The computation of a pass: the transformer, written once, in terms of the device's operations.
#include "outrider/decoder/decoder.h"

namespace outrider {

void Decoder::enqueue(int num_logits) {
    embed();
    for (int layer = 0; layer < config_.num_layers; ++layer) {
        mix(layer);
        mlp(layer);
    }
    lm_head(num_logits);
}

void Decoder::embed() {
    device_->embed({.table = &weights_.embedding(),
                    .token_ids = workspace_.rows.token_ids(),
                    .scale = config_.embedding_scale,
                    .residual = workspace_.residual.data(),
                    .rows = rows()});
    for (size_t index = 0; index < config_.ropes.size(); ++index) {
        const Rope& rope = config_.ropes[index];
        device_->rotary_angles({.positions = workspace_.rows.places().positions,
                                .frequencies = frequencies_[index].data(),
                                .scale = rope.scale,
                                .half_dim = static_cast<int>(rope.frequencies.size()),
                                .out = workspace_.angles[index].data(),
                                .rows = rows()});
    }
}

/// Attention or a short convolution: reads the residual and computes the value to add to it.
void Decoder::mix(int index) {
    // The previous layer's output is added in the same operation as this layer's norm.
    const float* delta = index > 0 ? workspace_.delta.data() : nullptr;
    const float* delta_norm = index > 0 ? weights_.layer(index - 1).post_mlp_norm.data() : nullptr;
    add_and_normalise(delta, delta_norm, weights_.layer(index).attention_norm);
    if (config_.taps_of(index) > 0) {
        convolve(index);
    } else {
        attend(index);
    }
}

void Decoder::attend(int index) {
    const LayerWeights& layer = weights_.layer(index);
    multiply(workspace_.normed.view(), layer.qkv, layer.qkv_bias.data(), workspace_.qkv.data());
    rotate_and_store(index);
    device_->attention({.qkv = workspace_.qkv.data(),
                        .places = workspace_.rows.places(),
                        .num_heads = config_.num_heads,
                        .window = config_.windows[index],
                        .softcap = config_.attention_softcap,
                        .cache = cache_.layer(index),
                        .out = workspace_.attended.view(),
                        .scratch = workspace_.scratch.data(),
                        .sinks = layer.sinks.data()});
    multiply(workspace_.attended.view(), layer.output, layer.output_bias.data(), workspace_.delta.data());
}

void Decoder::convolve(int index) {
    const ConvWeights& conv = weights_.layer(index).conv;
    multiply(workspace_.normed.view(), conv.in, conv.in_bias.data(), workspace_.conv_in.data());
    device_->short_convolution({.projected = workspace_.conv_in.data(),
                                .places = workspace_.rows.places(),
                                .taps = conv.taps.data(),
                                .num_taps = config_.taps_of(index),
                                .bias = conv.bias.data(),
                                .cache = cache_.conv_layer(index),
                                .out = workspace_.convolved.view()});
    multiply(workspace_.convolved.view(), conv.out, conv.out_bias.data(), workspace_.delta.data());
}

void Decoder::rotate_and_store(int index) {
    const LayerWeights& layer = weights_.layer(index);
    const int rope = config_.rope_of_layer[index];
    device_->rotate_and_store({.qkv = workspace_.qkv.data(),
                               .places = workspace_.rows.places(),
                               .angles = workspace_.angles[rope].data(),
                               .half_dim = static_cast<int>(config_.ropes[rope].frequencies.size()),
                               .qk_norm = config_.qk_norm,
                               .norm_kind = config_.norm,
                               .q_norm = layer.q_norm.data(),
                               .k_norm = layer.k_norm.data(),
                               .eps = config_.norm_eps,
                               .query_scale = config_.query_scale,
                               .num_heads = config_.num_heads,
                               .cache = cache_.layer(index)});
}

/// The MLP or the experts: reads the residual and computes the value to add to it. A parallel MLP reads
/// attention's input, before the next norm overwrites it.
void Decoder::mlp(int index) {
    const LayerWeights& layer = weights_.layer(index);
    if (config_.parallel_mlp) {
        activate(layer);
    }
    add_and_normalise(workspace_.delta.data(), layer.post_attention_norm.data(), layer.mlp_norm);
    if (config_.intermediate_size > 0) {
        if (!config_.parallel_mlp) {
            activate(layer);
        }
        multiply(workspace_.gated.view(), layer.down, layer.down_bias.data(), workspace_.delta.data());
    }
    if (experts_) {
        experts_->run(layer.experts, workspace_.normed.view(), rows(), workspace_.delta.data());
    }
}

/// The first half of the MLP for all rows: gate and up products and the activation.
void Decoder::activate(const LayerWeights& layer) {
    const Activations input = workspace_.normed.view();
    const float* bias = layer.gate_up_bias.data();
    float* out = workspace_.gate_up.data();
    const Activate activation{.gate_up = out,
                              .activation = config_.activation,
                              .is_gated = config_.gated_mlp,
                              .out = workspace_.gated.view(),
                              .rows = rows(),
                              .width = config_.intermediate_size};
    const auto& parts = layer.gate_up.parts();
    if (parts.size() == 1 && !adapters_.change(*parts.front().matrix)) {
        device_->activated_product(product_of(input, layer.gate_up, parts.front(), bias, out), activation);
    } else {
        multiply(input, layer.gate_up, bias, out);
        device_->activate(activation);
    }
}

/// The final norm and the lm_head product, for the rows whose logits are requested.
void Decoder::lm_head(int num_logits) {
    const LayerWeights& last = weights_.layer(config_.num_layers - 1);
    add_and_normalise(workspace_.delta.data(), last.post_mlp_norm.data(), weights_.final_norm());
    device_->gather_rows({.in = workspace_.normed.view(),
                          .indices = workspace_.rows.logit_rows(),
                          .out = workspace_.lm_head_input.view(),
                          .rows = num_logits,
                          .width = config_.hidden_size});
    const PackedWeight& head = short_head_ ? short_head_->matrix() : weights_.lm_head();
    float* const logits = short_head_ ? short_head_->logits() : workspace_.logits->data();
    device_->product({.input = workspace_.lm_head_input.view(),
                      .weight = &head,
                      .out = logits,
                      .out_stride = head.out_features(),
                      .rows = num_logits});
    if (config_.logit_softcap > 0.0f) {
        device_->soft_cap({.values = logits,
                           .cap = config_.logit_softcap,
                           .count = int64_t{num_logits} * head.out_features()});
    }
    if (short_head_) {
        short_head_->spread(workspace_.logits->data(), num_logits);
    }
}

void Decoder::add_and_normalise(const float* delta, const float* delta_norm, const NormWeights& norm) {
    device_->residual_norm({.residual = workspace_.residual.data(),
                            .delta = delta,
                            .delta_norm = delta_norm,
                            .norm = norm.weight.data(),
                            .norm_bias = norm.bias.data(),
                            .kind = config_.norm,
                            .eps = config_.norm_eps,
                            .out = workspace_.normed.view(),
                            .rows = rows(),
                            .width = config_.hidden_size});
}

void Decoder::multiply(const Activations& input, const FusedWeight& weight, const float* bias, float* out) {
    for (const FusedWeight::Part& part : weight.parts()) {
        device_->product(product_of(input, weight, part, bias, out));
        adapters_.apply(input, *part.matrix, out + part.first_column, weight.out_features());
    }
}

Product Decoder::product_of(const Activations& input, const FusedWeight& weight,
                            const FusedWeight::Part& part, const float* bias, float* out) {
    return {.input = input,
            .weight = part.matrix.get(),
            .bias = bias ? bias + part.first_column : nullptr,
            .out = out + part.first_column,
            .out_stride = weight.out_features(),
            .rows = rows(),
            .scratch = workspace_.product_scratch.data()};
}

}  // namespace outrider
