#include "outrider/decoder/decoder.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "outrider/decoder/limits.h"
#include "require_range.h"

namespace outrider {
namespace {

DecoderConfig validated(DecoderConfig config, const Device& device) {
    config.validate();
    if (config.head_dim > device.max_head_dim()) {
        throw std::invalid_argument("head_dim is " + std::to_string(config.head_dim) + "; device " +
                                    device.name() + " handles at most " +
                                    std::to_string(device.max_head_dim()));
    }
    return config;
}

std::vector<DeviceBuffer<float>> upload_frequencies(const std::shared_ptr<Device>& device,
                                                    const DecoderConfig& config) {
    std::vector<DeviceBuffer<float>> buffers;
    for (const RotaryTable& table : config.rotary_tables) {
        const std::vector<float>& frequencies = table.frequencies;
        buffers.emplace_back(device, frequencies.size());
        device->upload(buffers.back().data(), frequencies.data(), frequencies.size() * sizeof(float));
    }
    return buffers;
}

}  // namespace

Decoder::Decoder(std::shared_ptr<Device> device, DecoderConfig config, WeightFormat weights, KvFormat kv)
    : device_(std::move(device)),
      config_(validated(std::move(config), *device_)),
      frequencies_(upload_frequencies(device_, config_)),
      weights_(device_, config_, weights),
      cache_(device_, config_, kv),
      workspace_(config_, device_->activation_format(weights)),
      passes_(device_->make_pass_recorder()) {}

Logits Decoder::forward(const Batch& batch) {
    place(batch, used_blocks(batch));
    return pass(batch.num_rows, batch.num_logits);
}

NextRows Decoder::place(const Batch& batch, int num_blocks) {
    require_complete();
    batch.validate(config_, cache_.num_blocks());
    const PassShape shape = passes_->padded({batch.num_rows, batch.num_logits, num_blocks});
    reserve(shape.rows, shape.logits, batch.num_sequences, shape.blocks);
    workspace_.rows.upload(device_, batch, shape);
    return workspace_.rows.next();
}

Logits Decoder::pass(int num_rows, int num_logits) {
    PassShape shape = passes_->padded({num_rows, num_logits, 1});
    shape.blocks = workspace_.rows.places().max_blocks;
    workspace_.rows.narrow(shape.rows);
    passes_->run(shape, [&] {
        embed();
        for (int layer = 0; layer < config_.num_layers; ++layer) {
            attend(layer);
            gate(layer);
        }
        score(shape.logits);
    });
    return Logits(device_, workspace_.logits, num_logits, config_.vocab_size);
}

void Decoder::reserve(int num_rows, int num_logits, int num_sequences, int num_blocks) {
    require_range("max_rows", num_rows, 1, kMostRows);
    require_range("max_logits", num_logits, 0, kMostRows);
    require_range("max_sequences", num_sequences, 1, kMostRows);
    require_range("max_blocks", num_blocks, 1, kMostBlocks);
    PassShape shape = passes_->padded({num_rows, num_logits, num_blocks});
    shape.blocks = passes_->padded({1, 0, num_blocks}).blocks;  // of passes over fewer rows
    try {
        const int capacity = std::max(shape.rows, shape.logits);  // a row may be asked more than once
        const bool rows_moved = workspace_.rows.reserve(device_, capacity, num_sequences, shape.blocks);
        if (workspace_.reserve(device_, config_, shape) || rows_moved) {
            passes_->forget();
        }
    } catch (...) {  // some of it may have moved
        passes_->forget();
        throw;
    }
}

void Decoder::allocate_cache(int num_blocks) {
    cache_.allocate(num_blocks);
}

void Decoder::require_complete() {
    if (complete_) {
        return;
    }
    const std::vector<std::string> missing = weights_.missing();
    if (!missing.empty()) {
        throw std::runtime_error("weight \"" + missing.front() + "\" is not loaded (" +
                                 std::to_string(missing.size()) + " missing in all)");
    }
    if (cache_.num_blocks() == 0) {
        throw std::runtime_error("the KV cache has no blocks yet");
    }
    complete_ = true;
}

void Decoder::embed() {
    Embed op;
    op.table = &weights_.embedding();
    op.token_ids = workspace_.rows.token_ids();
    op.scale = config_.embedding_scale;
    op.residual = workspace_.residual.data();
    op.rows = rows();
    device_->embed(op);

    for (size_t table = 0; table < config_.rotary_tables.size(); ++table) {
        RotaryAngles angles;
        angles.positions = workspace_.rows.places().positions;
        angles.frequencies = frequencies_[table].data();
        angles.scale = config_.rotary_tables[table].scale;
        angles.half_dim = static_cast<int>(config_.rotary_tables[table].frequencies.size());
        angles.out = workspace_.angles[table].data();
        angles.rows = rows();
        device_->rotary_angles(angles);
    }
}

/// The attention sublayer, from the residual to what is to be added to it.
void Decoder::attend(int index) {
    const LayerWeights& layer = weights_.layer(index);
    // What the layer before has left to add is added in the same operation as this layer's norm.
    const float* delta = index > 0 ? workspace_.delta.data() : nullptr;
    const float* delta_norm = index > 0 ? weights_.layer(index - 1).post_mlp_norm.data() : nullptr;
    add_and_normalise(delta, delta_norm, layer.attention_norm.data());
    multiply(workspace_.normed.view(), *layer.qkv, layer.qkv_bias.data(), workspace_.qkv.data());
    rotate_and_store(index);

    Attention op;
    op.qkv = workspace_.qkv.data();
    op.places = workspace_.rows.places();
    op.num_heads = config_.num_heads;
    op.window = config_.windows[index];
    op.softcap = config_.attention_softcap;
    op.cache = cache_.layer(index);
    op.out = workspace_.attended.view();
    op.scratch = workspace_.scratch.data();
    device_->attention(op);
    multiply(op.out, *layer.output, nullptr, workspace_.delta.data());
}

void Decoder::rotate_and_store(int index) {
    const LayerWeights& layer = weights_.layer(index);
    const int table = config_.rope_of_layer[index];
    RotateAndStore op;
    op.qkv = workspace_.qkv.data();
    op.places = workspace_.rows.places();
    op.angles = workspace_.angles[table].data();
    op.half_dim = static_cast<int>(config_.rotary_tables[table].frequencies.size());
    op.qk_norm = config_.qk_norm;
    op.q_norm = layer.q_norm.data();
    op.k_norm = layer.k_norm.data();
    op.eps = config_.norm_eps;
    op.query_scale = config_.query_scale;
    op.num_heads = config_.num_heads;
    op.cache = cache_.layer(index);
    device_->rotate_and_store(op);
}

/// The gated MLP, from the residual to what is to be added to it.
void Decoder::gate(int index) {
    const LayerWeights& layer = weights_.layer(index);
    add_and_normalise(workspace_.delta.data(), layer.post_attention_norm.data(), layer.mlp_norm.data());
    multiply(workspace_.normed.view(), *layer.gate_up, nullptr, workspace_.gate_up.data());

    GatedActivation op;
    op.gate_up = workspace_.gate_up.data();
    op.activation = config_.activation;
    op.out = workspace_.gated.view();
    op.rows = rows();
    op.width = config_.intermediate_size;
    device_->gated_activation(op);
    multiply(op.out, *layer.down, nullptr, workspace_.delta.data());
}

void Decoder::score(int num_logits) {
    const LayerWeights& last = weights_.layer(config_.num_layers - 1);
    add_and_normalise(workspace_.delta.data(), last.post_mlp_norm.data(), weights_.final_norm());

    GatherRows gather;
    gather.in = workspace_.normed.view();
    gather.indices = workspace_.rows.logit_rows();
    gather.out = workspace_.asked.view();
    gather.rows = num_logits;
    gather.width = config_.hidden_size;
    device_->gather_rows(gather);

    Product product;
    product.input = gather.out;
    product.weight = &weights_.lm_head();
    product.out = workspace_.logits->data();
    product.rows = num_logits;
    device_->product(product);

    if (config_.logit_softcap > 0.0f) {
        SoftCap cap;
        cap.values = product.out;
        cap.cap = config_.logit_softcap;
        cap.count = static_cast<int64_t>(num_logits) * config_.vocab_size;
        device_->soft_cap(cap);
    }
}

void Decoder::add_and_normalise(const float* delta, const float* delta_norm, const float* norm) {
    ResidualNorm op;
    op.residual = workspace_.residual.data();
    op.delta = delta;
    op.delta_norm = delta_norm;
    op.norm = norm;
    op.eps = config_.norm_eps;
    op.out = workspace_.normed.view();
    op.rows = rows();
    op.width = config_.hidden_size;
    device_->residual_norm(op);
}

void Decoder::multiply(const Activations& input, const PackedWeight& weight, const float* bias, float* out) {
    Product op;
    op.input = input;
    op.weight = &weight;
    op.bias = bias;
    op.out = out;
    op.rows = rows();
    device_->product(op);
}

int64_t Decoder::kv_bytes_per_token() const {
    return int64_t{2} * config_.num_layers * config_.num_kv_heads *
           kv_bytes(cache_.format(), config_.head_dim);
}

}  // namespace outrider
