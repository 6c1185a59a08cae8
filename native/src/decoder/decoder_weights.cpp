#include "outrider/decoder/decoder_weights.h"

#include <cmath>
#include <stdexcept>

namespace outrider {
namespace {

/// The format of the lm_head. It decides between tokens of similar probability, so it gets more than four
/// bits.
WeightFormat head_format(WeightFormat format) {
    return format == WeightFormat::int4 ? WeightFormat::int8 : format;
}

/// The format of an embedding table that is not the lm_head too. A pass reads one row per token, so
/// quantising it would save nothing.
WeightFormat table_format(WeightFormat format) {
    return format == WeightFormat::f32 ? format : WeightFormat::bf16;
}

/// Adds a norm; `factor` multiplies its weights and biases.
void add_norm(WeightBuilder& builder, const DecoderConfig& config, const std::string& name, NormWeights& norm,
              float factor = 1.0f) {
    builder.add_vectors(norm.weight, {{name, config.hidden_size}}, factor);
    if (config.norm_bias) {
        builder.add_vectors(norm.bias, {{name + "_bias", config.hidden_size}}, factor);
    }
}

void add_expert(WeightBuilder& builder, const DecoderConfig& config, Expert& expert,
                const std::string& prefix) {
    const int inner = config.experts->size;
    builder.add_fused(expert.gate_up, config.hidden_size,
                      {builder.own(prefix + "gate", inner), builder.own(prefix + "up", inner)});
    builder.add_fused(expert.down, inner, {builder.own(prefix + "down", config.hidden_size)});
    if (config.experts->have_biases) {
        builder.add_vectors(expert.gate_up_bias, {builder.own(prefix + "gate_bias", inner),
                                                  builder.own(prefix + "up_bias", inner)});
        builder.add_vectors(expert.down_bias, {builder.own(prefix + "down_bias", config.hidden_size)});
    }
}

/// Adds the experts. The choice among them depends on small differences, so the router has the precision of
/// its input.
void add_experts(WeightBuilder& builder, const DecoderConfig& config, ExpertWeights& weights, bool has_gate,
                 const std::string& prefix) {
    const int count = config.experts->count;
    std::vector<NamedPart> logits{{prefix + "router", count}};
    if (has_gate) {
        logits.push_back({prefix + "shared_gate", 1});
    }
    const bool is_rounded = builder.activation_format() == Format::bf16;
    builder.add_fused(weights.router, config.hidden_size, logits,
                      is_rounded ? WeightFormat::bf16 : WeightFormat::f32);
    if (config.experts->have_biases) {
        weights.router_bias.reserve(builder.device(), weights.router.out_features());  // 0 for the gate
        builder.add_vectors(weights.router_bias, {{prefix + "router_bias", count}});
    }
    if (config.experts->has_choice_bias) {
        builder.add_vectors(weights.choice_bias, {{prefix + "choice_bias", count}});
    }
    if (config.experts->have_scales) {
        builder.add_vectors(weights.scales, {{prefix + "expert_scales", count}});
    }
    if (config.experts->have_norms) {
        const int hidden = config.hidden_size;
        builder.add_vectors(weights.router_norm, {{prefix + "router_norm", hidden}},
                            1.0f / std::sqrt(static_cast<float>(hidden)));
        builder.add_vectors(weights.input_norm, {{prefix + "expert_norm", hidden}});
        builder.add_vectors(weights.mlp_norm, {{prefix + "post_dense_norm", hidden}});
        builder.add_vectors(weights.output_norm, {{prefix + "post_expert_norm", hidden}});
    }
    weights.per_token = config.experts->per_token;
    weights.each = std::vector<Expert>(count);
    for (int index = 0; index < count; ++index) {
        add_expert(builder, config, weights.each[index], prefix + "experts." + std::to_string(index) + ".");
    }
}

void add_mlp(WeightBuilder& builder, const DecoderConfig& config, int index, LayerWeights& layer,
             const std::string& prefix) {
    const int inner = config.mlp_size(index);
    if (config.has_experts(index)) {
        add_experts(builder, config, layer.experts, inner > 0 && config.experts->has_shared_gate, prefix);
    }
    if (inner == 0) {
        return;
    }
    std::vector<NamedPart> inputs{builder.own(prefix + "up", inner)};
    std::vector<NamedPart> biases{builder.own(prefix + "up_bias", inner)};
    if (config.gated_mlp) {
        inputs.insert(inputs.begin(), builder.own(prefix + "gate", inner));
        biases.insert(biases.begin(), builder.own(prefix + "gate_bias", inner));
    }
    builder.add_fused(layer.gate_up, config.hidden_size, inputs);
    builder.add_fused(layer.down, inner, {builder.own(prefix + "down", config.hidden_size)});
    if (config.mlp_bias) {
        builder.add_vectors(layer.gate_up_bias, biases);
        builder.add_vectors(layer.down_bias, {builder.own(prefix + "down_bias", config.hidden_size)});
    }
}

void add_layer(WeightBuilder& builder, const DecoderConfig& config, int index, LayerWeights& layer) {
    const std::string prefix = "layers." + std::to_string(index) + ".";
    if (config.pre_norm) {
        add_norm(builder, config, prefix + "attention_norm", layer.attention_norm);
    }
    switch (config.layers[index].kind) {
        case LayerKind::attention:
            layer.attention.add(builder, config, index, prefix);
            break;
        case LayerKind::short_convolution:
            layer.convolution.add(builder, config, config.layers[index].taps, prefix);
            break;
        case LayerKind::gated_delta:
            layer.delta.add(builder, config, prefix);
            break;
        case LayerKind::latent_attention:
            layer.latent.add(builder, config, prefix);
            break;
    }
    if (config.post_norm) {
        builder.add_vectors(layer.post_attention_norm,
                            {{prefix + "post_attention_norm", config.hidden_size}});
    }
    if (config.pre_norm && !config.parallel_mlp) {
        add_norm(builder, config, prefix + "mlp_norm", layer.mlp_norm);
    }
    add_mlp(builder, config, index, layer, prefix);
    if (config.post_norm) {
        builder.add_vectors(layer.post_mlp_norm, {{prefix + "post_mlp_norm", config.hidden_size}});
    }
    if (config.layer_input_size > 0) {
        layer.input.add(builder, config, prefix);
    }
    if (config.layer_scale) {
        builder.add_vectors(layer.scale, {{prefix + "scale", 1}});
    }
}

/// 0: the lm_head is the embedding, or the target's.
int rows_of_own_head(const DecoderConfig& config, const DecoderWeights* target) {
    if (config.features && (config.features->head_size > 0 || target->has_whole_head())) {
        return config.features->head_size;
    }
    return config.tied_embeddings && config.rank.count == 1 ? 0 : config.vocab_size;
}

}  // namespace

DecoderWeights::DecoderWeights(const std::shared_ptr<Device>& device, const DecoderConfig& config,
                               const WeightKinds& kinds, const DecoderWeights* target)
    : target_(target),
      rank_(config.rank),
      is_tied_(config.tied_embeddings),
      layers_(config.layers.size()),
      slots_(device) {
    WeightBuilder builder(device, kinds, slots_, config.rank);
    const WeightFormat head = head_format(kinds.format);
    const WeightFormat table = config.tied_embeddings ? head : table_format(kinds.format);
    const std::optional<Features>& features = config.features;
    if (!features || features->own_embedding) {
        embedding_ = builder.add_table({"embedding", config.vocab_size}, config.hidden_size, table);
    }
    if (config.layer_input_size > 0) {
        inputs_.add(builder, config, table_format(kinds.format));
    }
    if (features) {
        features_.add(builder, config);
    }
    for (int index = 0; index < config.num_layers(); ++index) {
        add_layer(builder, config, index, layers_[index]);
    }
    // Scaling the norm scales the logits.
    add_norm(builder, config, "final_norm", final_norm_, config.logit_scale);
    if (const int rows = rows_of_own_head(config, target); rows > 0) {
        const char* const name = config.tied_embeddings ? "embedding" : "lm_head";
        lm_head_ = builder.add_table(builder.own(name, rows), config.hidden_size, head);
    }
    if (config.block() && config.block()->markov_rank > 0) {
        markov_.add(builder, config, lm_head().out_features(), table, head);
    }
    for (const auto& own : kinds.own) {
        if (device->activation_format(slots_.matrix(own.first).format()) != builder.activation_format()) {
            throw std::invalid_argument("weight \"" + own.first +
                                        "\" reads its inputs in another format than the others");
        }
    }
}

std::vector<MatrixRows> DecoderWeights::find_linear(const std::string& name) {
    const std::vector<MatrixRows> rows = slots_.rows_of(name);
    const PackedWeight& matrix = *rows.front().matrix;
    if (inputs_.projection.holds(matrix)) {
        return rows;
    }
    for (const LayerWeights& layer : layers_) {
        for (const FusedWeight* weight : layer.linear()) {
            if (weight->holds(matrix)) {
                return rows;
            }
        }
    }
    throw std::invalid_argument(
        "weight \"" + name +
        "\" is none that an adapter changes: q, k, v, q_gate, o, q_down, kv_down, conv_in, conv_out, "
        "delta_qkv, delta_z, delta_b, delta_a, delta_out, gate, up, down, input_gate "
        "or input_projection of a layer");
}

int64_t DecoderWeights::bytes() const {
    int64_t total = lm_head().bytes() + slots_.vector_bytes() + inputs_.projection.bytes();
    total += features_.fc.bytes() + features_.carried.bytes();
    total += markov_.out ? markov_.out->bytes() + markov_.confidence.bytes() : 0;
    for (const LayerWeights& layer : layers_) {
        for (const FusedWeight* weight : layer.linear()) {
            total += weight->bytes();
        }
        total += layer.experts.bytes() + layer.latent.bytes_of_heads();
    }
    return total;
}

}  // namespace outrider
