// ConfigField: the name and the allowed values of a field of DecoderConfig. A new field is a member of the
// struct and a line here.
#pragma once

#include <cstdint>
#include <limits>
#include <tuple>

#include "outrider/decoder/decoder_config.h"
#include "outrider/decoder/limits.h"

namespace outrider {

/// A field under its name, which is the same in Python, and its allowed values.
template <typename T>
struct ConfigField {
    const char* name;
    T DecoderConfig::* member;
    int64_t most = 0;           // greatest size
    int64_t least = 1;          // least size
    bool not_negative = false;  // a number must be finite and not negative
};

/// All fields; bindings and validation iterate over them.
inline constexpr std::tuple kConfigFields{
    ConfigField{.name = "layers", .member = &DecoderConfig::layers, .most = kMostLayers},
    ConfigField{.name = "hidden_size", .member = &DecoderConfig::hidden_size, .most = kMostFeatures},
    ConfigField{.name = "intermediate_size",
                .member = &DecoderConfig::intermediate_size,
                .most = kMostFeatures / 2,
                .least = 0},
    ConfigField{.name = "num_heads", .member = &DecoderConfig::num_heads, .most = kMostFeatures},
    ConfigField{.name = "num_kv_heads", .member = &DecoderConfig::num_kv_heads, .most = kMostFeatures},
    ConfigField{.name = "head_dim", .member = &DecoderConfig::head_dim, .most = kMostFeatures},
    ConfigField{.name = "vocab_size", .member = &DecoderConfig::vocab_size, .most = kMostTokens},
    ConfigField{.name = "max_position",
                .member = &DecoderConfig::max_position,
                .most = std::numeric_limits<int>::max()},
    ConfigField{.name = "norm", .member = &DecoderConfig::norm},
    ConfigField{.name = "norm_bias", .member = &DecoderConfig::norm_bias},
    ConfigField{.name = "norm_eps", .member = &DecoderConfig::norm_eps, .not_negative = true},
    ConfigField{.name = "activation", .member = &DecoderConfig::activation},
    ConfigField{.name = "query_scale", .member = &DecoderConfig::query_scale},
    ConfigField{
        .name = "attention_softcap", .member = &DecoderConfig::attention_softcap, .not_negative = true},
    ConfigField{.name = "attention_gate", .member = &DecoderConfig::attention_gate},
    ConfigField{.name = "attention_sinks", .member = &DecoderConfig::attention_sinks},
    ConfigField{.name = "logit_softcap", .member = &DecoderConfig::logit_softcap, .not_negative = true},
    ConfigField{.name = "embedding_scale", .member = &DecoderConfig::embedding_scale},
    ConfigField{.name = "logit_scale", .member = &DecoderConfig::logit_scale},
    ConfigField{.name = "ropes", .member = &DecoderConfig::ropes},
    ConfigField{.name = "conv_bias", .member = &DecoderConfig::conv_bias},
    ConfigField{.name = "qk_norm", .member = &DecoderConfig::qk_norm},
    ConfigField{.name = "value_norm", .member = &DecoderConfig::value_norm},
    ConfigField{.name = "layer_scale", .member = &DecoderConfig::layer_scale},
    ConfigField{.name = "layer_input_size",
                .member = &DecoderConfig::layer_input_size,
                .most = kMostFeatures / 2,
                .least = 0},
    ConfigField{.name = "pre_norm", .member = &DecoderConfig::pre_norm},
    ConfigField{.name = "post_norm", .member = &DecoderConfig::post_norm},
    ConfigField{.name = "attention_bias", .member = &DecoderConfig::attention_bias},
    ConfigField{.name = "output_bias", .member = &DecoderConfig::output_bias},
    ConfigField{.name = "mlp_bias", .member = &DecoderConfig::mlp_bias},
    ConfigField{.name = "gated_mlp", .member = &DecoderConfig::gated_mlp},
    ConfigField{.name = "parallel_mlp", .member = &DecoderConfig::parallel_mlp},
    ConfigField{.name = "tied_embeddings", .member = &DecoderConfig::tied_embeddings},
    ConfigField{.name = "experts", .member = &DecoderConfig::experts},
    ConfigField{.name = "features", .member = &DecoderConfig::features},
};

/// Calls `visit` with each ConfigField.
template <typename Visit>
void for_each_field(const Visit& visit) {
    std::apply([&](const auto&... fields) { (visit(fields), ...); }, kConfigFields);
}

}  // namespace outrider
