#include "outrider/decoder/decoder_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "decoder/config_fields.h"
#include "outrider/device/device.h"
#include "require_range.h"

namespace outrider {
namespace {

void require(bool condition, const std::string& message) {
    if (!condition) {
        throw std::invalid_argument(message);
    }
}

void require_not_negative(const char* field, float value) {
    require(std::isfinite(value) && value >= 0.0f,
            std::string(field) + " is " + std::to_string(value) + "; it must be finite and not negative");
}

void validate_field(const DecoderConfig& config, const ConfigField<int>& field) {
    require_range(field.name, config.*field.member, field.least, field.most);
}

void validate_field(const DecoderConfig& config, const ConfigField<float>& field) {
    if (field.not_negative) {
        require_not_negative(field.name, config.*field.member);
    }
}

void validate_field(const DecoderConfig& config, const ConfigField<std::vector<LayerConfig>>& field) {
    require_range("the number of layers", config.num_layers(), field.least, field.most);
}

template <typename T>
void validate_field(const DecoderConfig&, const ConfigField<T>&) {}

/// Validates the sizes from which all others follow; the fields of a layer have `prefix` before their names.
void validate_heads(const AttentionShape& shape, const std::string& prefix = "") {
    const int64_t heads = int64_t{shape.num_heads} + 2 * int64_t{shape.num_kv_heads};
    require_range("(num_heads + 2 * num_kv_heads) * head_dim", heads * shape.head_dim, 1, kMostFeatures);
    require(shape.num_heads % shape.num_kv_heads == 0,
            "num_heads is " + std::to_string(shape.num_heads) + "; it must be a multiple of " + prefix +
                "num_kv_heads = " + std::to_string(shape.num_kv_heads));
}

void validate_ropes(const DecoderConfig& config) {
    for (const LayerConfig& layer : config.layers) {
        if (layer.kind == LayerKind::attention) {
            const size_t frequencies = config.ropes[layer.rope].frequencies.size();
            const int head_dim = config.attention(layer).head_dim;
            require(2 * frequencies <= static_cast<size_t>(head_dim),
                    "ropes has one of " + std::to_string(frequencies) +
                        " frequencies; it must have at most half of head_dim = " + std::to_string(head_dim));
        }
    }
}

/// A layer may only read the keys and values of an earlier one with heads like its own.
void validate_shared(const DecoderConfig& config, int index, const std::string& name) {
    const LayerConfig& layer = config.layers[index];
    require_range(name + "kv_layer", *layer.kv_layer, 0, index - 1);
    const LayerConfig& from = config.layers[*layer.kv_layer];
    const AttentionShape own = config.attention(layer);
    const AttentionShape others = config.attention(from);
    require(from.kind == LayerKind::attention && others.stores && own.head_dim == others.head_dim &&
                own.num_kv_heads == others.num_kv_heads,
            name + "kv_layer is " + std::to_string(*layer.kv_layer) +
                "; it must be a layer with keys and values of its own, and as many and as wide heads");
    require(!layer.values_are_keys, name + "values_are_keys is true; it must be false with kv_layer");
    require(!config.features, name + "kv_layer must not be given with features");
}

void validate_delta(const DecoderConfig& config, const DeltaShape& shape, const std::string& name) {
    require_range(name + "key_heads", shape.key_heads, 1, kMostFeatures);
    require_range(name + "value_heads", shape.value_heads, 1, kMostFeatures);
    require_range(name + "taps", shape.taps, 2, kMostTaps);
    for (const auto& [field, size] :
         {std::pair("key_dim", shape.key_dim), std::pair("value_dim", shape.value_dim)}) {
        require(size > 0 && size % kStateDimUnit == 0 && size <= kMostStateDim,
                name + field + " is " + std::to_string(size) + "; it must be a positive multiple of " +
                    std::to_string(kStateDimUnit) + ", at most " + std::to_string(kMostStateDim));
    }
    require(shape.value_heads % shape.key_heads == 0,
            name + "value_heads is " + std::to_string(shape.value_heads) +
                "; it must be a multiple of key_heads = " + std::to_string(shape.key_heads));
    const int64_t channels =
        2 * int64_t{shape.key_heads} * shape.key_dim + int64_t{shape.value_heads} * shape.value_dim;
    require_range("the channels of " + name, channels, 1, kMostFeatures);
    require(shape == config.delta_shape(),
            name + " has another shape than the first layer of its kind; all must have the same");
}

/// Slices of rows are inputs of products, so that their sizes keep to the alignment of these.
void validate_latent(const DecoderConfig& config, const LatentShape& shape, const std::string& name) {
    require_range(name + "query_rank", shape.query_rank, 0, kMostFeatures);
    for (const auto& [field, size] :
         {std::pair("rank", shape.rank), std::pair("turning", shape.turning),
          std::pair("key_dim", shape.key_dim), std::pair("value_dim", shape.value_dim)}) {
        require(size > 0 && size % kActivationAlignment == 0, name + field + " is " + std::to_string(size) +
                                                                  "; it must be a positive multiple of " +
                                                                  std::to_string(kActivationAlignment));
        require_range("num_heads times " + name + field, int64_t{config.num_heads} * size, 1,
                      kMostFeatures / 2);
    }
    require_range(name + "turning", shape.turning, 1, kMostTurning);
    require(!config.ropes.empty() &&
                2 * config.ropes.front().frequencies.size() == static_cast<size_t>(shape.turning),
            "ropes must have one of " + std::to_string(shape.turning / 2) + " frequencies, half of " + name +
                "turning");
    require_not_negative((name + "norm_eps").c_str(), shape.norm_eps);
    require(shape == config.latent_shape(),
            name + "latent has another shape than the first layer of its kind; all must have the same");
    require(config.attention_softcap == 0.0f && !config.attention_gate && !config.attention_sinks &&
                !config.attention_bias && !config.output_bias,
            name + "kind is \"latent_attention\", which has no softcap, gates, sinks and biases");
}

/// Requires at least two taps: with one, a row would read no other position.
void validate_layer(const DecoderConfig& config, int index) {
    const LayerConfig& layer = config.layers[index];
    const std::string name = "layers[" + std::to_string(index) + "].";
    switch (layer.kind) {
        case LayerKind::attention:
            require_range(name + "window", layer.window, 0, std::numeric_limits<int>::max());
            require_range(name + "rope", layer.rope, 0, static_cast<int64_t>(config.ropes.size()) - 1);
            require_range(name + "head_dim", config.attention(layer).head_dim, 1, kMostFeatures);
            require_range(name + "num_kv_heads", config.attention(layer).num_kv_heads, 1, kMostFeatures);
            validate_heads(config.attention(layer), name);
            if (layer.kv_layer) {
                validate_shared(config, index, name);
            }
            require(layer.target_layer.has_value() == config.reads_target(),
                    name + "target_layer must be given for all layers of an attached drafter, or for none");
            require(!layer.looks_ahead || config.has_context(),
                    name + "looks_ahead is true; it must be false where features are no context of blocks");
            break;
        case LayerKind::short_convolution:
            require_range(name + "taps", layer.taps, 2, kMostTaps);
            require(3 * int64_t{config.hidden_size} <= kMostFeatures,
                    "hidden_size is " + std::to_string(config.hidden_size) +
                        "; where layers convolve, three of it must be at most " +
                        std::to_string(kMostFeatures));
            break;
        case LayerKind::gated_delta:
            validate_delta(config, layer.delta, name);
            break;
        case LayerKind::latent_attention:
            validate_latent(config, layer.latent, name);
            break;
    }
}

void validate_norms(const DecoderConfig& config) {
    const bool is_layer = config.norm == NormKind::layer;
    require(is_layer || !config.norm_bias, "norm_bias is true; it must be false where norm is \"rms\"");
    require(!is_layer || !config.post_norm, "post_norm is true; it must be false where norm is \"layer\"");
    require(!is_layer || config.qk_norm != QkNorm::full,
            "qk_norm is \"full\"; it must be \"none\", \"head\" or \"each\" where norm is \"layer\"");
    require(!is_layer || !config.layer_scale,
            "layer_scale is true; it must be false where norm is \"layer\"");
    require(!config.value_norm || config.qk_norm == QkNorm::head || config.qk_norm == QkNorm::each,
            "value_norm is true; it must be false where qk_norm is \"none\" or \"full\"");
    require(config.layer_input_size == 0 || (!is_layer && !config.features),
            "layer_input_size must be 0 with features, and where norm is \"layer\"");
    require_range("layer_input_size times the layers", int64_t{config.layer_input_size} * config.num_layers(),
                  0, kMostFeatures);
}

void validate_experts(const Experts& experts) {
    const RoutingRule& rule = experts.rule;
    require_range("experts.count", experts.count, 1, kMostExperts);
    require_range("experts.size", experts.size, 1, kMostFeatures / 2);
    require_range("experts.groups", rule.groups, 1, std::max(1, experts.count / 2));
    require(experts.count % rule.groups == 0,
            "experts.count is " + std::to_string(experts.count) +
                "; it must be a multiple of experts.groups = " + std::to_string(rule.groups));
    require_range("experts.groups_per_token", rule.groups_per_token, 1, rule.groups);
    require_range("experts.per_token", experts.per_token, 1,
                  experts.count / rule.groups * rule.groups_per_token);
    const bool is_softmax = rule.scores == ExpertScores::softmax;
    require(!is_softmax || !experts.has_choice_bias,
            "experts.has_choice_bias is true; it must be false where scores is \"softmax\"");
    require(!is_softmax || rule.sum_offset == 0.0f,
            "experts.sum_offset is not 0, which it must be where scores is \"softmax\"");
    require(is_softmax || !experts.have_scales,
            "experts.have_scales is true; it must be false where scores is \"sigmoid\"");
    require_not_negative("experts.sum_offset", rule.sum_offset);
    require_not_negative("experts.weight_scale", rule.weight_scale);
}

void validate_mlp(const DecoderConfig& config) {
    require(config.gated_mlp || config.activation != Activation::clamped_swiglu,
            "gated_mlp is false; it must be true where activation is \"clamped_swiglu\"");
    for (int index = 0; index < config.num_layers(); ++index) {
        const std::string name = config.layers[index].mlp_size
                                     ? "layers[" + std::to_string(index) + "].mlp_size"
                                     : "intermediate_size";
        require_range(name, config.mlp_size(index), config.has_experts(index) ? 0 : 1, kMostFeatures / 2);
    }
    if (config.experts) {
        require(config.gated_mlp, "gated_mlp is false; it must be true where there are experts");
        require(!config.parallel_mlp, "parallel_mlp is true; it must be false where there are experts");
        validate_experts(*config.experts);
        const bool have_norms = config.experts->have_norms;
        require(!have_norms || (config.norm == NormKind::rms && !config.features),
                "experts.have_norms must be false with features, and where norm is \"layer\"");
        require(!have_norms || !config.experts->has_shared_gate,
                "experts.has_shared_gate is true; it must be false where have_norms is true");
        for (int index = 0; have_norms && index < config.num_layers(); ++index) {
            require(
                config.mlp_size(index) > 0,
                "experts.have_norms is true; it must be false where a layer has no MLP beside its experts");
        }
    }
}

void validate_block(const DecoderConfig& config, const FeatureBlock& block) {
    const Features& features = *config.features;
    require_range("features.block.size", block.size, block.first_predicts ? 1 : 2, kMostRows);
    require_range("features.block.mask_token", block.mask_token, 0, config.vocab_size - 1);
    require_range("features.block.markov_rank", block.markov_rank, 0, kMostFeatures / 2);
    require(!block.has_confidence || block.markov_rank > 0,
            "features.block.has_confidence is true; it must be false where markov_rank is 0");
    require(!features.fc_reads_both && !features.norm_carried,
            "features.fc_reads_both and norm_carried must be false with features.block");
    for (int index = 0; index < config.num_layers(); ++index) {
        require(config.layers[index].kind == LayerKind::attention,
                "layers[" + std::to_string(index) +
                    "] has no attention; with features.block all layers must have");
    }
    if (block.continues_rows) {
        require(block.first_predicts,
                "features.block.first_predicts is false; it must be true where continues_rows is true");
    } else {
        require(!features.norm_residual,
                "features.norm_residual is true; it must be false where features are a context");
    }
}

/// A drafter's first layer may read two vectors at once, which only attention to keys and values without a gate does.
void validate_features(const DecoderConfig& config) {
    if (!config.features) {
        return;
    }
    const Features& features = *config.features;
    require_range("features.count", features.count, 1, kMostStreams);
    require_range("features.width", features.width, 1, kMostFeatures / kMostStreams);
    require_range("features.head_size", features.head_size, 0, config.vocab_size);
    require(2 * int64_t{config.hidden_size} <= kMostFeatures,
            "hidden_size is " + std::to_string(config.hidden_size) +
                "; with features, two of it must be at most " + std::to_string(kMostFeatures));
    const LayerKind first = config.layers.front().kind;
    require(first == LayerKind::attention || (first == LayerKind::latent_attention && features.fc_reads_both),
            "layers[0] has no attention, or latent attention; with features it must have the former, unless "
            "features.fc_reads_both is true");
    require(config.norm == NormKind::rms && config.pre_norm && !config.parallel_mlp &&
                (!config.post_norm || features.fc_reads_both),
            "norm, pre_norm and parallel_mlp must be \"rms\", true and false with features, and post_norm "
            "false unless features.fc_reads_both is true");
    require(features.fc_reads_both || !config.attention_gate,
            "attention_gate is true; with features it must be false unless features.fc_reads_both is true");
    if (features.fc_reads_both) {
        require_range("features.count", features.count, 1, 1);
        require_range("features.width", features.width, config.row_vector_size(), config.row_vector_size());
    }
    for (int index = 0; config.reads_target() && index < config.num_layers(); ++index) {
        require(
            config.layers[index].kind == LayerKind::attention,
            "layers[" + std::to_string(index) + "] has no attention; where layers read the target all must");
    }
    if (config.reads_target()) {
        require(
            features.fc_reads_both && features.norm_carried && features.head_size > 0,
            "features.fc_reads_both, norm_carried and head_size must be true, true and positive where layers "
            "read the target");
    }
    require(!config.tied_embeddings, "tied_embeddings is true; with features it must be false");
    if (features.block) {
        validate_block(config, *features.block);
    }
}

}  // namespace

void DecoderConfig::validate() const {
    for_each_field([this](const auto& field) { validate_field(*this, field); });
    validate_heads({num_heads, num_kv_heads, head_dim});
    for (int index = 0; index < num_layers(); ++index) {
        validate_layer(*this, index);
    }
    validate_ropes(*this);
    validate_norms(*this);
    validate_mlp(*this);
    validate_features(*this);
}

int64_t DecoderConfig::position_bytes(KvFormat format) const {
    const auto convolving = static_cast<int64_t>(hidden_size * size_of(conv_format(format)));
    int64_t total = 0;
    for (const LayerConfig& layer : layers) {
        const AttentionShape shape = attention(layer);
        const int64_t attending = 2 * shape.num_kv_heads * kv_bytes(format, shape.head_dim);
        const int64_t latent = kv_bytes(format, layer.latent.rank) + kv_bytes(format, layer.latent.turning);
        total += layer.kind == LayerKind::attention           ? (shape.stores ? attending : 0)
                 : layer.kind == LayerKind::short_convolution ? convolving
                 : layer.kind == LayerKind::latent_attention  ? latent
                                                              : 0;
    }
    return total;
}

DeltaShape DecoderConfig::delta_shape() const {
    const auto first = std::find_if(layers.begin(), layers.end(), [](const LayerConfig& layer) {
        return layer.kind == LayerKind::gated_delta;
    });
    return first == layers.end() ? DeltaShape{} : first->delta;
}

DeltaShape DecoderConfig::own_delta_shape() const {
    DeltaShape shape = delta_shape();
    shape.key_heads /= rank.count;
    shape.value_heads /= rank.count;
    return shape;
}

LatentShape DecoderConfig::latent_shape() const {
    const auto first = std::find_if(layers.begin(), layers.end(), [](const LayerConfig& layer) {
        return layer.kind == LayerKind::latent_attention;
    });
    return first == layers.end() ? LatentShape{} : first->latent;
}

int64_t DecoderConfig::state_bytes(int ring_rows) const {
    const auto count = std::count_if(layers.begin(), layers.end(), [](const LayerConfig& layer) {
        return layer.kind == LayerKind::gated_delta;
    });
    return count * own_delta_shape().slot_size(ring_rows) * static_cast<int64_t>(sizeof(float));
}

void DecoderConfig::validate(const Device& device) const {
    validate();
    for (const LayerConfig& layer : layers) {
        const int largest = attention(layer).head_dim;
        require(layer.kind != LayerKind::attention || largest <= device.max_head_dim(),
                "head_dim is " + std::to_string(largest) + "; device " + device.name() + " handles at most " +
                    std::to_string(device.max_head_dim()));
        const int most = device.max_latent_rank(layer.latent.turning);
        require(layer.latent.rank <= most, "the rank of latent vectors is " +
                                               std::to_string(layer.latent.rank) + "; device " +
                                               device.name() + " handles at most " + std::to_string(most));
    }
}

}  // namespace outrider
