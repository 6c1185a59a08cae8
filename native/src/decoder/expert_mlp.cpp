#include "outrider/decoder/expert_mlp.h"

#include <utility>

namespace outrider {

ExpertMlp::ExpertMlp(std::shared_ptr<Device> device, const DecoderConfig& config, Format format)
    : device_(std::move(device)),
      experts_(*config.experts),
      activation_(config.activation),
      hidden_size_(config.hidden_size),
      has_gate_(config.intermediate_size > 0),
      first_rows_(device_, static_cast<size_t>(experts_.count) + 1),
      inputs_(format, config.hidden_size),
      gated_(format, experts_.size) {}

bool ExpertMlp::reserve(int rows) {
    const int gathered = rows * experts_.per_token;
    const auto count = static_cast<size_t>(gathered);
    bool moved = choices_.reserve(device_, count);
    moved |= places_.reserve(device_, count);
    moved |= gathered_.reserve(device_, count);
    moved |= weights_.reserve(device_, count);
    moved |= logits_.reserve(device_, static_cast<size_t>(rows) * (experts_.count + 1));
    moved |= gate_up_.reserve(device_, count * 2 * experts_.size);
    moved |= outputs_.reserve(device_, count * hidden_size_);
    moved |= inputs_.reserve(device_, gathered);
    moved |= gated_.reserve(device_, gathered);
    return moved;
}

Routing ExpertMlp::routing() {
    return {.experts = choices_.data(),
            .weights = weights_.data(),
            .places = places_.data(),
            .gathered = gathered_.data(),
            .first_rows = first_rows_.data(),
            .count = experts_.count,
            .per_token = experts_.per_token};
}

void ExpertMlp::run(const ExpertWeights& weights, const Activations& input, int rows, float* delta) {
    const int gathered = rows * experts_.per_token;
    route(weights, input, rows);
    device_->gather_rows({.in = input,
                          .indices = gathered_.data(),
                          .out = inputs_.view(),
                          .rows = gathered,
                          .width = hidden_size_});
    for (int expert = 0; expert < experts_.count; ++expert) {
        multiply(inputs_.view(), weights.each[expert].gate_up, expert, gathered, gate_up_.data());
    }
    device_->activate({.gate_up = gate_up_.data(),
                       .activation = activation_,
                       .out = gated_.view(),
                       .rows = gathered,
                       .width = experts_.size});
    for (int expert = 0; expert < experts_.count; ++expert) {
        multiply(gated_.view(), weights.each[expert].down, expert, gathered, outputs_.data());
    }
    device_->mix_experts({.routing = routing(),
                          .outputs = outputs_.data(),
                          .gates = has_gate_ ? logits_.data() + experts_.count : nullptr,
                          .gate_stride = weights.router.out_features(),
                          .out = delta,
                          .rows = rows,
                          .width = hidden_size_});
}

void ExpertMlp::route(const ExpertWeights& weights, const Activations& input, int rows) {
    const int stride = weights.router.out_features();
    for (const auto& [matrix, first_column] : weights.router.parts()) {
        device_->product({.input = input,
                          .weight = matrix.get(),
                          .out = logits_.data() + first_column,
                          .out_stride = stride,
                          .rows = rows});
    }
    device_->route({.logits = logits_.data(),
                    .stride = stride,
                    .are_normalised = experts_.are_normalised,
                    .out = routing(),
                    .rows = rows});
}

void ExpertMlp::multiply(const Activations& input, const FusedWeight& weight, int expert, int rows,
                         float* out) {
    for (const auto& [matrix, first_column] : weight.parts()) {
        device_->span_product({.product = {.input = input,
                                           .weight = matrix.get(),
                                           .out = out + first_column,
                                           .out_stride = weight.out_features(),
                                           .rows = rows},
                               .span = first_rows_.data() + expert});
    }
}

}  // namespace outrider
