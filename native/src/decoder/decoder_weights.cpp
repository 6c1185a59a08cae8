#include "outrider/decoder/decoder_weights.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "source_values.h"

namespace outrider {
namespace {

std::string text_of(const std::vector<int64_t>& shape) {
    std::string text = "[";
    for (size_t axis = 0; axis < shape.size(); ++axis) {
        text += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
    }
    return text + "]";
}

/// The last product decides between neighbouring tokens: it keeps more than four bits.
WeightFormat head_format(WeightFormat format) {
    return format == WeightFormat::int4 ? WeightFormat::int8 : format;
}

/// A pass reads one row a token of a table that is no lm_head too: nothing is won by rounding it.
WeightFormat table_format(WeightFormat format) {
    return format == WeightFormat::f32 ? format : WeightFormat::bf16;
}

}  // namespace

DecoderWeights::DecoderWeights(const std::shared_ptr<Device>& device, const DecoderConfig& config,
                               WeightKinds kinds)
    : device_(device), kinds_(std::move(kinds)), layers_(config.num_layers) {
    const WeightFormat head = head_format(kinds_.format);
    embedding_ = add_table("embedding", config.tied_embeddings ? head : table_format(kinds_.format), config);
    for (int index = 0; index < config.num_layers; ++index) {
        add_layer(config, index);
    }
    add_own_vector("final_norm", final_norm_, config.hidden_size);
    slots_.back().factor = config.logit_scale;  // a product is as large as its input
    if (!config.tied_embeddings) {
        lm_head_ = add_table("lm_head", head, config);
    }
    for (const auto& own : kinds_.own) {
        if (device->activation_format(find_matrix(own.first).matrix->format()) !=
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
        add_own_vector(prefix + "attention_norm", layer.attention_norm, config.hidden_size);
    }
    add_attention(config, layer, prefix);
    if (config.post_norm) {
        add_own_vector(prefix + "post_attention_norm", layer.post_attention_norm, config.hidden_size);
    }
    if (config.pre_norm) {
        add_own_vector(prefix + "mlp_norm", layer.mlp_norm, config.hidden_size);
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
        add_vector(prefix + "q_bias", bias, q_size);
        add_vector(prefix + "k_bias", bias + q_size, kv_size);
        add_vector(prefix + "v_bias", bias + q_size + kv_size, kv_size);
    }
    if (config.qk_norm != QkNorm::none) {
        add_own_vector(prefix + "q_norm", layer.q_norm, config.q_norm_size());
        add_own_vector(prefix + "k_norm", layer.k_norm, config.k_norm_size());
    }
    add_fused(layer.output, q_size, {{prefix + "o", config.hidden_size}});
    if (config.output_bias) {
        add_own_vector(prefix + "o_bias", layer.output_bias, config.hidden_size);
    }
}

void DecoderWeights::add_mlp(const DecoderConfig& config, LayerWeights& layer, const std::string& prefix) {
    const int inner = config.intermediate_size;
    add_fused(layer.gate_up, config.hidden_size, {{prefix + "gate", inner}, {prefix + "up", inner}});
    add_fused(layer.down, inner, {{prefix + "down", config.hidden_size}});
    if (config.mlp_bias) {
        layer.gate_up_bias = DeviceBuffer<float>(device_, 2 * int64_t{inner});
        add_vector(prefix + "gate_bias", layer.gate_up_bias.data(), inner);
        add_vector(prefix + "up_bias", layer.gate_up_bias.data() + inner, inner);
        add_own_vector(prefix + "down_bias", layer.down_bias, config.hidden_size);
    }
}

WeightKind DecoderWeights::kind_of(const std::string& name, WeightFormat format) const {
    const auto found = kinds_.own.find(name);
    return found == kinds_.own.end() ? WeightKind{format} : found->second;
}

std::unique_ptr<PackedWeight> DecoderWeights::add_table(const std::string& name, WeightFormat format,
                                                        const DecoderConfig& config) {
    auto table = device_->make_weight(kind_of(name, format), config.vocab_size, config.hidden_size);
    add_part(name, *table, 0, config.vocab_size);
    return table;
}

void DecoderWeights::add_fused(FusedWeight& weight, int in_features, const std::vector<Rows>& parts) {
    for (auto first = parts.begin(); first != parts.end();) {
        const WeightKind kind = kind_of(first->name, kinds_.format);
        const auto end = std::find_if(
            first, parts.end(), [&](const Rows& part) { return kind_of(part.name, kinds_.format) != kind; });
        const int rows =
            std::accumulate(first, end, 0, [](int sum, const Rows& part) { return sum + part.count; });
        PackedWeight& matrix = weight.add(device_->make_weight(kind, rows, in_features));
        for (int row = 0; first != end; row += first->count, ++first) {
            add_part(first->name, matrix, row, first->count);
        }
    }
}

void DecoderWeights::add_own_vector(const std::string& name, DeviceBuffer<float>& buffer, int size) {
    buffer = DeviceBuffer<float>(device_, size);
    add_vector(name, buffer.data(), size);
}

void DecoderWeights::add_part(const std::string& name, PackedWeight& matrix, int first_row, int rows) {
    slot_of_name_[name] = slots_.size();
    slots_.push_back(
        {.name = name, .shape = {rows, matrix.in_features()}, .matrix = &matrix, .first_row = first_row});
}

void DecoderWeights::add_vector(const std::string& name, float* to, int size) {
    slot_of_name_[name] = slots_.size();
    slots_.push_back({.name = name, .shape = {size}, .vector = to});
}

DecoderWeights::Slot& DecoderWeights::find(const std::string& name) {
    const auto found = slot_of_name_.find(name);
    if (found == slot_of_name_.end()) {
        throw std::invalid_argument("this configuration has no weight named \"" + name + "\"");
    }
    return slots_[found->second];
}

DecoderWeights::Slot& DecoderWeights::find_matrix(const std::string& name) {
    Slot& slot = find(name);
    if (!slot.matrix) {
        throw std::invalid_argument("weight \"" + name + "\" is no matrix");
    }
    return slot;
}

void DecoderWeights::load(const std::string& name, const std::vector<int64_t>& shape, const void* values,
                          SourceType type) {
    Slot& slot = find(name);
    if (shape != slot.shape) {
        throw std::invalid_argument("weight \"" + name + "\" has shape " + text_of(shape) + "; it must be " +
                                    text_of(slot.shape));
    }
    store(slot, 0, shape[0], values, type);
}

void DecoderWeights::load_rows(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape,
                               const void* values, SourceType type) {
    store(find_next(name, first_row, shape), first_row, shape[0], values, type);
}

void DecoderWeights::load_blocks(const std::string& name, int64_t first_row,
                                 const std::vector<int64_t>& shape, const BlockType& type,
                                 const uint8_t* blocks) {
    const int64_t in_features = find_matrix(name).shape[1];
    if (shape[1] != type.row_bytes(in_features)) {
        throw std::invalid_argument("weight \"" + name + "\" has rows of " + std::to_string(shape[1]) +
                                    " bytes; in " + type.name + " they must have " +
                                    std::to_string(type.row_bytes(in_features)));
    }
    Slot& slot = find_next(name, first_row, {shape[0], in_features});
    slot.matrix->store_blocks(static_cast<int>(slot.first_row + first_row), static_cast<int>(shape[0]), type,
                              blocks);
    slot.loaded_rows = first_row + shape[0];
}

/// The slot of a weight's next rows.
DecoderWeights::Slot& DecoderWeights::find_next(const std::string& name, int64_t first_row,
                                                const std::vector<int64_t>& shape) {
    Slot& slot = find(name);
    if (first_row != 0 && first_row != slot.loaded_rows) {
        throw std::invalid_argument("weight \"" + name + "\": first_row is " + std::to_string(first_row) +
                                    "; it must be 0, or " + std::to_string(slot.loaded_rows) +
                                    ", the first that is missing");
    }
    const bool same_width = shape.size() == slot.shape.size() &&
                            std::equal(shape.begin() + 1, shape.end(), slot.shape.begin() + 1);
    if (!same_width || shape[0] > slot.shape[0] - first_row) {
        throw std::invalid_argument("weight \"" + name + "\": rows from " + std::to_string(first_row) +
                                    " on have shape " + text_of(shape) + "; they must be of " +
                                    text_of(slot.shape));
    }
    return slot;
}

void DecoderWeights::store(Slot& slot, int64_t first_row, int64_t rows, const void* values, SourceType type) {
    if (slot.matrix) {
        slot.matrix->store(static_cast<int>(slot.first_row + first_row), static_cast<int>(rows), values,
                           type);
    } else {
        std::vector<float> converted = to_float32(values, type, 0, rows);
        for (float& value : converted) {
            value *= slot.factor;
        }
        device_->upload(slot.vector + first_row, converted.data(), converted.size() * sizeof(float));
    }
    slot.loaded_rows = first_row + rows;
}

std::vector<std::pair<std::string, PackedBytes>> DecoderWeights::packed() {
    std::vector<std::pair<std::string, PackedBytes>> memory;
    for (const Slot& slot : slots_) {
        if (!slot.matrix) {
            memory.push_back({slot.name, {slot.vector, slot.shape[0] * sizeof(float)}});
        } else if (slot.first_row == 0) {
            memory.push_back({slot.name, slot.matrix->packed()});
        }
        if (!memory.back().second.data) {
            throw std::invalid_argument("device " + device_->name() + " holds its weights in its own memory");
        }
    }
    return memory;
}

void DecoderWeights::mark_loaded() {
    for (Slot& slot : slots_) {
        slot.loaded_rows = slot.shape[0];
    }
}

std::vector<std::string> DecoderWeights::missing() const {
    std::vector<std::string> names;
    for (const Slot& slot : slots_) {
        if (slot.loaded_rows < slot.shape[0]) {
            names.push_back(slot.name);
        }
    }
    return names;
}

int64_t DecoderWeights::bytes() const {
    int64_t total = lm_head().bytes();
    for (const Slot& slot : slots_) {
        if (slot.vector) {
            total += slot.shape[0] * static_cast<int64_t>(sizeof(float));
        }
    }
    for (const LayerWeights& layer : layers_) {
        total += layer.qkv.bytes() + layer.output.bytes() + layer.gate_up.bytes() + layer.down.bytes();
    }
    return total;
}

}  // namespace outrider
