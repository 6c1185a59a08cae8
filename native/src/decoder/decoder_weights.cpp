#include "outrider/decoder/decoder_weights.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

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

}  // namespace

DecoderWeights::DecoderWeights(const std::shared_ptr<Device>& device, const DecoderConfig& config,
                               WeightKinds kinds)
    : device_(device), kinds_(std::move(kinds)), layers_(config.num_layers), slots_(device) {
    const WeightFormat head = head_format(kinds_.format);
    embedding_ = add_table("embedding", config.tied_embeddings ? head : table_format(kinds_.format), config);
    for (int index = 0; index < config.num_layers; ++index) {
        add_layer(config, index);
    }
    // Scaling the norm scales the logits.
    add_norm(config, "final_norm", final_norm_, config.logit_scale);
    if (!config.tied_embeddings) {
        lm_head_ = add_table("lm_head", head, config);
    }
    for (const auto& own : kinds_.own) {
        if (device->activation_format(slots_.matrix(own.first).format()) !=
            device->activation_format(kinds_.format)) {
            throw std::invalid_argument("weight \"" + own.first +
                                        "\" reads its inputs in another format than the others");
        }
    }
}

void DecoderWeights::add_layer(const DecoderConfig& config, int index) {
    LayerWeights& layer = layers_[index];
    const std::string prefix = "layers." + std::to_string(index) + ".";
    if (config.pre_norm) {
        add_norm(config, prefix + "attention_norm", layer.attention_norm);
    }
    if (const int taps = config.taps_of(index); taps > 0) {
        add_convolution(config, layer.conv, taps, prefix);
    } else {
        add_attention(config, layer, prefix);
    }
    if (config.post_norm) {
        add_own_vector(prefix + "post_attention_norm", layer.post_attention_norm, config.hidden_size);
    }
    if (config.pre_norm && !config.parallel_mlp) {
        add_norm(config, prefix + "mlp_norm", layer.mlp_norm);
    }
    add_mlp(config, layer, prefix);
    if (config.post_norm) {
        add_own_vector(prefix + "post_mlp_norm", layer.post_mlp_norm, config.hidden_size);
    }
}

void DecoderWeights::add_attention(const DecoderConfig& config, LayerWeights& layer,
                                   const std::string& prefix) {
    const int q_size = config.q_size();
    const int kv_size = config.kv_size();
    add_fused(layer.qkv, config.hidden_size,
              {{prefix + "q", q_size}, {prefix + "k", kv_size}, {prefix + "v", kv_size}});
    if (config.attention_bias) {
        layer.qkv_bias = DeviceBuffer<float>(device_, config.qkv_size());
        float* bias = layer.qkv_bias.data();
        slots_.add_vector(prefix + "q_bias", bias, q_size);
        slots_.add_vector(prefix + "k_bias", bias + q_size, kv_size);
        slots_.add_vector(prefix + "v_bias", bias + q_size + kv_size, kv_size);
    }
    if (config.qk_norm != QkNorm::none) {
        add_head_norm(config, prefix + "q_norm", layer.q_norm, config.q_norm_size());
        add_head_norm(config, prefix + "k_norm", layer.k_norm, config.k_norm_size());
    }
    if (config.attention_sinks) {
        add_own_vector(prefix + "sinks", layer.sinks, config.num_heads);
    }
    add_fused(layer.output, q_size, {{prefix + "o", config.hidden_size}});
    if (config.output_bias) {
        add_own_vector(prefix + "o_bias", layer.output_bias, config.hidden_size);
    }
}

void DecoderWeights::add_convolution(const DecoderConfig& config, ConvWeights& weights, int taps,
                                     const std::string& prefix) {
    const int hidden = config.hidden_size;
    add_fused(weights.in, hidden, {{prefix + "conv_in", config.conv_in_size()}});
    weights.taps = DeviceBuffer<float>(device_, static_cast<size_t>(taps) * hidden);
    for (int tap = 0; tap < taps; ++tap) {
        slots_.add_vector(prefix + "conv." + std::to_string(tap), weights.taps.data() + int64_t{tap} * hidden,
                          hidden);
    }
    add_fused(weights.out, hidden, {{prefix + "conv_out", hidden}});
    if (config.conv_bias) {
        add_own_vector(prefix + "conv_in_bias", weights.in_bias, config.conv_in_size());
        add_own_vector(prefix + "conv_bias", weights.bias, hidden);
        add_own_vector(prefix + "conv_out_bias", weights.out_bias, hidden);
    }
}

void DecoderWeights::add_mlp(const DecoderConfig& config, LayerWeights& layer, const std::string& prefix) {
    const int inner = config.intermediate_size;
    if (config.experts) {
        add_experts(config, layer.experts, prefix);
    }
    if (inner == 0) {
        return;
    }
    std::vector<Rows> inputs{{prefix + "up", inner}};
    if (config.gated_mlp) {
        inputs.insert(inputs.begin(), {prefix + "gate", inner});
    }
    add_fused(layer.gate_up, config.hidden_size, inputs);
    add_fused(layer.down, inner, {{prefix + "down", config.hidden_size}});
    if (config.mlp_bias) {
        layer.gate_up_bias = DeviceBuffer<float>(device_, config.gate_up_size());
        float* bias = layer.gate_up_bias.data();
        for (const Rows& part : inputs) {
            slots_.add_vector(part.name + "_bias", bias, part.count);
            bias += part.count;
        }
        add_own_vector(prefix + "down_bias", layer.down_bias, config.hidden_size);
    }
}

/// Adds the experts. The choice among them depends on small differences, so the router has the precision of
/// its input.
void DecoderWeights::add_experts(const DecoderConfig& config, ExpertWeights& weights,
                                 const std::string& prefix) {
    std::vector<Rows> logits{{prefix + "router", config.experts->count}};
    if (config.intermediate_size > 0) {
        logits.push_back({prefix + "shared_gate", 1});
    }
    const bool is_rounded = device_->activation_format(kinds_.format) == Format::bf16;
    add_fused(weights.router, config.hidden_size, logits,
              is_rounded ? WeightFormat::bf16 : WeightFormat::f32);
    if (config.experts->have_biases) {
        weights.router_bias = DeviceBuffer<float>(device_, weights.router.out_features());  // 0 for the gate
        slots_.add_vector(prefix + "router_bias", weights.router_bias.data(), config.experts->count);
    }
    weights.per_token = config.experts->per_token;
    weights.each = std::vector<Expert>(config.experts->count);
    for (int index = 0; index < config.experts->count; ++index) {
        add_expert(config, weights.each[index], prefix + "experts." + std::to_string(index) + ".");
    }
}

void DecoderWeights::add_expert(const DecoderConfig& config, Expert& expert, const std::string& prefix) {
    const int inner = config.experts->size;
    add_fused(expert.gate_up, config.hidden_size, {{prefix + "gate", inner}, {prefix + "up", inner}});
    add_fused(expert.down, inner, {{prefix + "down", config.hidden_size}});
    if (config.experts->have_biases) {
        expert.gate_up_bias = DeviceBuffer<float>(device_, 2 * static_cast<size_t>(inner));
        slots_.add_vector(prefix + "gate_bias", expert.gate_up_bias.data(), inner);
        slots_.add_vector(prefix + "up_bias", expert.gate_up_bias.data() + inner, inner);
        add_own_vector(prefix + "down_bias", expert.down_bias, config.hidden_size);
    }
}

WeightKind DecoderWeights::kind_of(const std::string& name, WeightFormat format) const {
    const auto found = kinds_.own.find(name);
    return found == kinds_.own.end() ? WeightKind{format} : found->second;
}

std::unique_ptr<PackedWeight> DecoderWeights::add_table(const std::string& name, WeightFormat format,
                                                        const DecoderConfig& config) {
    auto table = device_->make_weight(kind_of(name, format), config.vocab_size, config.hidden_size);
    slots_.add_rows(name, *table, 0, config.vocab_size);
    return table;
}

void DecoderWeights::add_fused(FusedWeight& weight, int in_features, const std::vector<Rows>& parts,
                               WeightFormat format) {
    for (auto first = parts.begin(); first != parts.end();) {
        const WeightKind kind = kind_of(first->name, format);
        const auto end = std::find_if(first, parts.end(),
                                      [&](const Rows& part) { return kind_of(part.name, format) != kind; });
        const int rows =
            std::accumulate(first, end, 0, [](int sum, const Rows& part) { return sum + part.count; });
        PackedWeight& matrix = weight.add(device_->make_weight(kind, rows, in_features));
        for (int row = 0; first != end; row += first->count, ++first) {
            slots_.add_rows(first->name, matrix, row, first->count);
        }
    }
}

/// Adds a norm; `factor` multiplies its weights and biases.
void DecoderWeights::add_norm(const DecoderConfig& config, const std::string& name, NormWeights& norm,
                              float factor) {
    add_own_vector(name, norm.weight, config.hidden_size, factor);
    if (config.norm_bias) {
        add_own_vector(name + "_bias", norm.bias, config.hidden_size, factor);
    }
}

/// Adds the norm of queries or keys; heads with their own weights have names of their own.
void DecoderWeights::add_head_norm(const DecoderConfig& config, const std::string& name,
                                   DeviceBuffer<float>& norm, int size) {
    if (config.qk_norm != QkNorm::each) {
        add_own_vector(name, norm, size);
        return;
    }
    norm = DeviceBuffer<float>(device_, size);
    for (int head = 0; head * config.head_dim < size; ++head) {
        slots_.add_vector(name + "." + std::to_string(head), norm.data() + head * config.head_dim,
                          config.head_dim);
    }
}

void DecoderWeights::add_own_vector(const std::string& name, DeviceBuffer<float>& buffer, int size,
                                    float factor) {
    buffer = DeviceBuffer<float>(device_, size);
    slots_.add_vector(name, buffer.data(), size, factor);
}

MatrixRows DecoderWeights::find_linear(const std::string& name) {
    const MatrixRows rows = slots_.rows_of(name);
    for (const LayerWeights& layer : layers_) {
        for (const FusedWeight* weight :
             {&layer.qkv, &layer.output, &layer.conv.in, &layer.conv.out, &layer.gate_up, &layer.down}) {
            if (weight->holds(*rows.matrix)) {
                return rows;
            }
        }
    }
    throw std::invalid_argument("weight \"" + name +
                                "\" is none that an adapter changes: q, k, v, o, conv_in, conv_out, "
                                "gate, up or down of a layer");
}

int64_t DecoderWeights::bytes() const {
    int64_t total = lm_head().bytes() + slots_.vector_bytes();
    for (const LayerWeights& layer : layers_) {
        total += layer.qkv.bytes() + layer.output.bytes() + layer.gate_up.bytes() + layer.down.bytes();
        total += layer.conv.in.bytes() + layer.conv.out.bytes() + layer.experts.bytes();
    }
    return total;
}

}  // namespace outrider
