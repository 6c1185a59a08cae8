#include "outrider/decoder/layer_inputs.h"

#include <cmath>
#include <utility>

#include "outrider/decoder/linear.h"

namespace outrider {

void LayerInputWeights::add(WeightBuilder& builder, const DecoderConfig& config, WeightFormat table_format) {
    const int size = config.layer_input_size;
    const int all = config.num_layers() * size;
    table = builder.add_table({"layer_embedding", config.vocab_size}, all, table_format);
    builder.add_fused(projection, config.hidden_size, {{"layer_projection", all}});
    builder.add_vectors(norm, {{"layer_input_norm", size}});
}

void OwnInputWeights::add(WeightBuilder& builder, const DecoderConfig& config, const std::string& prefix) {
    builder.add_fused(gate, config.hidden_size, {{prefix + "input_gate", config.layer_input_size}});
    builder.add_fused(projection, config.layer_input_size,
                      {{prefix + "input_projection", config.hidden_size}});
    builder.add_vectors(post_norm, {{prefix + "post_input_norm", config.hidden_size}});
}

LayerInputs::LayerInputs(std::shared_ptr<Device> device, const DecoderConfig& config, Format format)
    : device_(std::move(device)),
      config_(config),
      embedded_(format, config.hidden_size),
      gated_(format, config.layer_input_size) {}

bool LayerInputs::reserve(int rows, Linear& linear) {
    const size_t count = rows;
    bool moved = inputs_.reserve(device_, count * all_sizes());
    moved |= projected_.reserve(device_, count * all_sizes());
    moved |= gates_.reserve(device_, count * config_.layer_input_size);
    moved |= embedded_.reserve(device_, rows);
    moved |= gated_.reserve(device_, rows);
    moved |= linear.reserve(rows, all_sizes(), config_.hidden_size);
    moved |= linear.reserve(rows, config_.layer_input_size, config_.hidden_size);
    moved |= linear.reserve(rows, config_.hidden_size, config_.layer_input_size);
    return moved;
}

/// The models scale what is projected by 1 / sqrt(hidden) before the norm, which is a larger eps without it.
void LayerInputs::begin(const LayerInputWeights& weights, const int32_t* token_ids, float* embedded, int rows,
                        Linear& linear) {
    const auto size = static_cast<float>(config_.layer_input_size);
    device_->embed({.table = weights.table.get(),
                    .token_ids = token_ids,
                    .scale = std::sqrt(size),
                    .residual = inputs_.data(),
                    .rows = rows});
    device_->residual_norm(
        {.residual = embedded, .out = embedded_.view(), .rows = rows, .width = config_.hidden_size});
    linear.multiply(embedded_.view(), rows, weights.projection, nullptr, projected_.data());
    device_->layer_input({.inputs = inputs_.data(),
                          .projected = projected_.data(),
                          .norm = weights.norm.data(),
                          .eps = config_.norm_eps * static_cast<float>(config_.hidden_size),
                          .scale = std::sqrt(0.5f),
                          .rows = rows,
                          .layers = config_.num_layers(),
                          .width = config_.layer_input_size});
}

void LayerInputs::run(const OwnInputWeights& weights, int layer, const Activations& residual, int rows,
                      Linear& linear, float* delta) {
    linear.multiply(residual, rows, weights.gate, nullptr, gates_.data());
    device_->activate({.gate_up = gates_.data(),
                       .activation = config_.activation,
                       .ups = inputs_.data() + static_cast<ptrdiff_t>(layer) * config_.layer_input_size,
                       .ups_stride = all_sizes(),
                       .out = gated_.view(),
                       .rows = rows,
                       .width = config_.layer_input_size});
    linear.multiply(gated_.view(), rows, weights.projection, nullptr, delta);
}

}  // namespace outrider
