#include "outrider/decoder/attention_mixer.h"

#include <algorithm>
#include <utility>

#include "outrider/decoder/linear.h"

namespace outrider {
namespace {

/// The parts of the norm of queries or keys; heads with their own weights have names of their own, and a rank holds
/// those of its heads.
std::vector<NamedPart> head_norm(QkNorm kind, const std::string& name, int num_heads, int head_dim,
                                 const Rank& rank) {
    if (kind != QkNorm::each) {
        return {{name, kind == QkNorm::head ? head_dim : num_heads * head_dim}};
    }
    std::vector<NamedPart> parts;
    for (int head = 0; head < num_heads * rank.count; ++head) {
        const bool is_own = head / num_heads == rank.index;
        parts.push_back({name + "." + std::to_string(head), is_own ? head_dim : 0, 0, head_dim});
    }
    return parts;
}

}  // namespace

void AttentionWeights::add(WeightBuilder& builder, const DecoderConfig& config, int layer,
                           const std::string& prefix) {
    const AttentionShape shape = config.attention(layer);
    const Rank& rank = builder.rank();
    const int q_size = config.attended_size(config.layers[layer]);
    const int kv_size = shape.kv_size() * rank.count;
    const NamedPart q = builder.own(prefix + "q", q_size);
    std::vector<NamedPart> parts{q};
    if (shape.stores) {
        parts.push_back(builder.own(prefix + "k", kv_size));
    }
    if (shape.stores && !config.layers[layer].values_are_keys) {
        parts.push_back(builder.own(prefix + "v", kv_size));
    }
    const int in_features = config.attention_input_size(layer);
    if (config.has_context()) {  // which has no queries
        builder.add_fused(qkv, in_features, {q});
        builder.add_fused(qkv, in_features, {parts.begin() + 1, parts.end()});
    } else {
        builder.add_fused(qkv, in_features, parts);
    }
    if (config.attention_bias) {
        for (NamedPart& part : parts) {
            part.name += "_bias";
        }
        builder.add_vectors(qkv_bias, parts);
    }
    if (config.qk_norm != QkNorm::none) {
        builder.add_vectors(
            q_norm, head_norm(config.qk_norm, prefix + "q_norm", shape.num_heads, shape.head_dim, rank));
    }
    if (config.qk_norm != QkNorm::none && shape.stores) {
        builder.add_vectors(
            k_norm, head_norm(config.qk_norm, prefix + "k_norm", shape.num_kv_heads, shape.head_dim, rank));
    }
    if (config.attention_sinks) {
        builder.add_vectors(sinks, {builder.own(prefix + "sinks", config.num_heads)});
    }
    if (config.attention_gate) {
        builder.add_fused(gate, config.hidden_size, {builder.own(prefix + "q_gate", q_size)});
    }
    builder.add_fused(output, q_size, {builder.own(prefix + "o", config.hidden_size)});
    if (config.output_bias) {
        builder.add_vectors(output_bias, {builder.own(prefix + "o_bias", config.hidden_size)});
    }
}

AttentionMixer::AttentionMixer(std::shared_ptr<Device> device, const DecoderConfig& config, Format format,
                               KvFormat kv)
    : device_(std::move(device)), config_(config), kv_(kv), angles_(config.ropes.size()) {
    for (const LayerConfig& layer : config.layers) {
        const int size = config.attended_size(layer);
        attended_.try_emplace(size, format, size);
    }
    if (config.value_norm) {
        const std::vector<float> ones(largest([](const AttentionShape& shape) { return shape.head_dim; }),
                                      1.0f);
        ones_ = DeviceBuffer<float>(device_, ones.size());
        device_->upload(ones_.data(), ones.data(), ones.size() * sizeof(float));
    }
    for (const Rope& rope : config.ropes) {
        const std::vector<float>& frequencies = rope.frequencies;
        frequencies_.emplace_back(device_, frequencies.size());
        device_->upload(frequencies_.back().data(), frequencies.data(), frequencies.size() * sizeof(float));
    }
}

bool AttentionMixer::reserve(const PassShape& shape, Linear& linear) {
    const size_t rows = shape.rows;
    const int qkv_size = largest([](const AttentionShape& each) { return each.qkv_size(); });
    const int q_size = largest([](const AttentionShape& each) { return each.q_size(); });
    const int head_dim = largest([](const AttentionShape& each) { return each.head_dim; });
    bool moved = qkv_.reserve(device_, rows * qkv_size);
    moved |= scratch_.reserve(
        device_, device_->attention_scratch(shape.rows, shape.blocks, config_.num_heads / config_.rank.count,
                                            head_dim));
    for (size_t rope = 0; rope < angles_.size(); ++rope) {
        moved |= angles_[rope].reserve(device_, rows * 2 * config_.ropes[rope].frequencies.size());
    }
    if (config_.attention_gate) {
        moved |= gates_.reserve(device_, rows * q_size);
    }
    for (auto& each : attended_) {
        moved |= each.second.reserve(device_, shape.rows);
    }
    moved |= linear.reserve(shape.rows, qkv_size, config_.attention_input_size(0));
    moved |= linear.reserve(shape.rows, config_.hidden_size, q_size * config_.rank.count);
    return moved;
}

template <typename Size>
int AttentionMixer::largest(const Size& size) const {
    int found = 0;
    for (const LayerConfig& layer : config_.layers) {
        found = layer.kind == LayerKind::attention ? std::max(found, size(config_.attention(layer))) : found;
    }
    return found;
}

size_t AttentionMixer::block_bytes(const LayerConfig& layer) const {
    return config_.attention(layer).stores ? device_->kv_block_bytes(kv_layer(layer, nullptr)) : 0;
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
    linear.multiply(input, places.rows, weights.qkv, weights.qkv_bias.data(), qkv_.data(),
                    config_.attention(layer).q_size(), config_.attention(layer).qkv_size());
    rotate_and_store(weights, layer, blocks, places);
}

void AttentionMixer::run(const AttentionWeights& weights, const LayerConfig& layer, void* blocks,
                         const Activations& input, const RowPlaces& places, Linear& linear, float* delta) {
    const AttentionShape shape = config_.attention(layer);
    linear.multiply(input, places.rows, weights.qkv, weights.qkv_bias.data(), qkv_.data(), 0,
                    shape.qkv_size());
    rotate_and_store(weights, layer, blocks, places);
    RowPlaces seen = places;
    seen.ends = layer.looks_ahead || layer.target_layer ? places.ends : nullptr;
    const int size = config_.attended_size(layer);
    const Activations all = attended_.at(size).view();
    const Activations attended = from_column(all, config_.rank.first(size));
    device_->attention({.qkv = qkv_.data(),
                        .qkv_stride = shape.qkv_size(),
                        .places = seen,
                        .num_heads = shape.num_heads,
                        .window = layer.window,
                        .softcap = config_.attention_softcap,
                        .cache = kv_layer(layer, blocks),
                        .out = attended,
                        .scratch = scratch_.data(),
                        .sinks = weights.sinks.data()});
    if (config_.attention_gate) {
        linear.multiply(input, places.rows, weights.gate, nullptr, gates_.data());
        device_->sigmoid_gate(
            {.values = attended, .gates = gates_.data(), .rows = places.rows, .width = shape.q_size()});
    }
    linear.ranks().exchange(all, size, places.rows);
    linear.multiply_all(all, places.rows, weights.output, weights.output_bias.data(), delta,
                        config_.hidden_size);
}

void AttentionMixer::rotate_and_store(const AttentionWeights& weights, const LayerConfig& layer, void* blocks,
                                      const RowPlaces& places) {
    KvLayer cache = kv_layer(layer, blocks);
    cache.num_kv_heads = config_.attention(layer).stores ? cache.num_kv_heads : 0;
    device_->rotate_and_store({.qkv = qkv_.data(),
                               .values_are_keys = layer.values_are_keys,
                               .places = places,
                               .angles = angles_[layer.rope].data(),
                               .half_dim = static_cast<int>(config_.ropes[layer.rope].frequencies.size()),
                               .qk_norm = config_.qk_norm,
                               .norm_kind = config_.norm,
                               .q_norm = weights.q_norm.data(),
                               .k_norm = weights.k_norm.data(),
                               .v_norm = ones_.data(),
                               .eps = config_.norm_eps,
                               .query_scale = config_.query_scale,
                               .num_heads = config_.attention(layer).num_heads,
                               .cache = cache});
}

KvLayer AttentionMixer::kv_layer(const LayerConfig& layer, void* blocks) const {
    const AttentionShape shape = config_.attention(layer);
    return {blocks, kv_, shape.num_kv_heads, shape.head_dim};
}

}  // namespace outrider
