#include "outrider/decoder/attention_mixer.h"

#include <utility>

#include "outrider/decoder/linear.h"

namespace outrider {
namespace {

/// The parts of the norm of queries or keys; heads with their own weights have names of their own.
std::vector<NamedPart> head_norm(const DecoderConfig& config, const std::string& name, int size) {
    if (config.qk_norm != QkNorm::each) {
        return {{name, size}};
    }
    std::vector<NamedPart> parts;
    for (int head = 0; head * config.head_dim < size; ++head) {
        parts.push_back({name + "." + std::to_string(head), config.head_dim});
    }
    return parts;
}

}  // namespace

void AttentionWeights::add(WeightBuilder& builder, const DecoderConfig& config, int layer,
                           const std::string& prefix) {
    const int q_size = config.q_size();
    const int kv_size = config.kv_size();
    const NamedPart q{prefix + "q", q_size};
    const std::vector<NamedPart> kv{{prefix + "k", kv_size}, {prefix + "v", kv_size}};
    const int in_features = config.attention_input_size(layer);
    if (config.has_context()) {  // which has no queries
        builder.add_fused(qkv, in_features, {q});
        builder.add_fused(qkv, in_features, kv);
    } else {
        builder.add_fused(qkv, in_features, {q, kv.front(), kv.back()});
    }
    if (config.attention_bias) {
        builder.add_vectors(
            qkv_bias,
            {{prefix + "q_bias", q_size}, {prefix + "k_bias", kv_size}, {prefix + "v_bias", kv_size}});
    }
    if (config.qk_norm != QkNorm::none) {
        builder.add_vectors(q_norm, head_norm(config, prefix + "q_norm", config.q_norm_size()));
        builder.add_vectors(k_norm, head_norm(config, prefix + "k_norm", config.k_norm_size()));
    }
    if (config.attention_sinks) {
        builder.add_vectors(sinks, {{prefix + "sinks", config.num_heads}});
    }
    if (config.attention_gate) {
        builder.add_fused(gate, config.hidden_size, {{prefix + "q_gate", q_size}});
    }
    builder.add_fused(output, q_size, {{prefix + "o", config.hidden_size}});
    if (config.output_bias) {
        builder.add_vectors(output_bias, {{prefix + "o_bias", config.hidden_size}});
    }
}

AttentionMixer::AttentionMixer(std::shared_ptr<Device> device, const DecoderConfig& config, Format format,
                               KvFormat kv)
    : device_(std::move(device)),
      config_(config),
      kv_(kv),
      angles_(config.ropes.size()),
      attended_(format, config.q_size()) {
    for (const Rope& rope : config.ropes) {
        const std::vector<float>& frequencies = rope.frequencies;
        frequencies_.emplace_back(device_, frequencies.size());
        device_->upload(frequencies_.back().data(), frequencies.data(), frequencies.size() * sizeof(float));
    }
}

bool AttentionMixer::reserve(const PassShape& shape, Linear& linear) {
    const size_t rows = shape.rows;
    bool moved = qkv_.reserve(device_, rows * config_.qkv_size());
    moved |= scratch_.reserve(
        device_, device_->attention_scratch(shape.rows, shape.blocks, config_.num_heads, config_.head_dim));
    for (size_t rope = 0; rope < angles_.size(); ++rope) {
        moved |= angles_[rope].reserve(device_, rows * 2 * config_.ropes[rope].frequencies.size());
    }
    if (config_.attention_gate) {
        moved |= gates_.reserve(device_, rows * config_.q_size());
    }
    moved |= attended_.reserve(device_, shape.rows);
    moved |= linear.reserve(shape.rows, config_.qkv_size(), config_.attention_input_size(0));
    moved |= linear.reserve(shape.rows, config_.hidden_size, config_.q_size());
    return moved;
}

size_t AttentionMixer::block_bytes() const {
    return device_->kv_block_bytes(kv_, config_.num_kv_heads, config_.head_dim);
}

void AttentionMixer::rotate(const RowPlaces& places) {
    for (size_t index = 0; index < config_.ropes.size(); ++index) {
        const Rope& rope = config_.ropes[index];
        device_->rotary_angles({.positions = places.positions,
                                .frequencies = frequencies_[index].data(),
                                .scale = rope.scale,
                                .half_dim = static_cast<int>(rope.frequencies.size()),
                                .out = angles_[index].data(),
                                .rows = places.rows});
    }
}

/// The queries are those of earlier rows; they are rotated too, but never read.
void AttentionMixer::store(const AttentionWeights& weights, const LayerConfig& layer, void* blocks,
                           const Activations& input, const RowPlaces& places, Linear& linear) {
    linear.multiply(input, places.rows, weights.qkv, weights.qkv_bias.data(), qkv_.data(), config_.q_size());
    rotate_and_store(weights, layer, blocks, places);
}

void AttentionMixer::run(const AttentionWeights& weights, const LayerConfig& layer, void* blocks,
                         const Activations& input, const RowPlaces& places, Linear& linear, float* delta) {
    linear.multiply(input, places.rows, weights.qkv, weights.qkv_bias.data(), qkv_.data());
    rotate_and_store(weights, layer, blocks, places);
    RowPlaces seen = places;
    seen.ends = layer.looks_ahead ? places.ends : nullptr;
    device_->attention({.qkv = qkv_.data(),
                        .places = seen,
                        .num_heads = config_.num_heads,
                        .window = layer.window,
                        .softcap = config_.attention_softcap,
                        .cache = kv_layer(blocks),
                        .out = attended_.view(),
                        .scratch = scratch_.data(),
                        .sinks = weights.sinks.data()});
    if (config_.attention_gate) {
        linear.multiply(input, places.rows, weights.gate, nullptr, gates_.data());
        device_->sigmoid_gate({.values = attended_.view(),
                               .gates = gates_.data(),
                               .rows = places.rows,
                               .width = config_.q_size()});
    }
    linear.multiply(attended_.view(), places.rows, weights.output, weights.output_bias.data(), delta);
}

void AttentionMixer::rotate_and_store(const AttentionWeights& weights, const LayerConfig& layer, void* blocks,
                                      const RowPlaces& places) {
    device_->rotate_and_store({.qkv = qkv_.data(),
                               .places = places,
                               .angles = angles_[layer.rope].data(),
                               .half_dim = static_cast<int>(config_.ropes[layer.rope].frequencies.size()),
                               .qk_norm = config_.qk_norm,
                               .norm_kind = config_.norm,
                               .q_norm = weights.q_norm.data(),
                               .k_norm = weights.k_norm.data(),
                               .eps = config_.norm_eps,
                               .query_scale = config_.query_scale,
                               .num_heads = config_.num_heads,
                               .cache = kv_layer(blocks)});
}

KvLayer AttentionMixer::kv_layer(void* blocks) const {
    return {blocks, kv_, config_.num_kv_heads, config_.head_dim};
}

}  // namespace outrider
