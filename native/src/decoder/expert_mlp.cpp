#include "outrider/decoder/expert_mlp.h"

#include <utility>

namespace outrider {

ExpertMlp::ExpertMlp(std::shared_ptr<Device> device, const DecoderConfig& config, Format format)
    : device_(std::move(device)),
      experts_(*config.experts),
      activation_(config.activation),
      hidden_size_(config.hidden_size),
      rank_(config.rank),
      norm_eps_(config.norm_eps),
      first_rows_(device_, static_cast<size_t>(experts_.count) + 1),
      inputs_(format, config.hidden_size),
      gated_(format, experts_.size),
      router_input_(format, config.hidden_size),
      normed_(format, config.hidden_size) {}

bool ExpertMlp::reserve(int rows) {
    const int gathered = rows * experts_.per_token;
    const auto count = static_cast<size_t>(gathered);
    bool moved = choices_.reserve(device_, count);
    moved |= places_.reserve(device_, count);
    moved |= gathered_.reserve(device_, count);
    moved |= weights_.reserve(device_, count);
    moved |= logits_.reserve(device_, static_cast<size_t>(rows) * (experts_.count + 1));
    moved |= gate_up_.reserve(device_, count * 2 * rank_.own(experts_.size));
    moved |= outputs_.reserve(device_, count * rank_.own(hidden_size_));
    moved |= inputs_.reserve(device_, gathered);
    moved |= gated_.reserve(device_, gathered);
    if (experts_.have_norms) {
        moved |= router_input_.reserve(device_, rows);
        moved |= normed_.reserve(device_, rows);
        moved |= mixed_.reserve(device_, static_cast<size_t>(rows) * hidden_size_);
    }
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

void ExpertMlp::run(const ExpertWeights& weights, const Activations& input, int rows, bool adds_to_delta,
                    Ranks& ranks, float* delta) {
    run(weights, input, input, rows, adds_to_delta, ranks, delta);
}

void ExpertMlp::run_normed(const ExpertWeights& weights, float* residual, int rows, Ranks& ranks,
                           float* delta) {
    ResidualNorm norm{.residual = residual,
                      .norm = weights.router_norm.data(),
                      .eps = norm_eps_,
                      .out = router_input_.view(),
                      .rows = rows,
                      .width = hidden_size_};
    device_->residual_norm(norm);
    norm.norm = weights.input_norm.data();
    norm.out = normed_.view();
    device_->residual_norm(norm);
    run(weights, router_input_.view(), normed_.view(), rows, false, ranks, mixed_.data());
    ResidualNorm sum{.residual = delta,
                     .replaces = true,
                     .delta = delta,
                     .delta_norm = weights.mlp_norm.data(),
                     .eps = norm_eps_,
                     .out = normed_.view(),
                     .rows = rows,
                     .width = hidden_size_};
    device_->residual_norm(sum);
    sum.replaces = false;
    sum.delta = mixed_.data();
    sum.delta_norm = weights.output_norm.data();
    device_->residual_norm(sum);
}

void ExpertMlp::run(const ExpertWeights& weights, const Activations& router_input, const Activations& input,
                    int rows, bool adds_to_delta, Ranks& ranks, float* delta) {
    const int gathered = rows * experts_.per_token;
    const int size = experts_.size;
    route(weights, router_input, rows);
    device_->gather_rows({.in = input,
                          .indices = gathered_.data(),
                          .out = inputs_.view(),
                          .rows = gathered,
                          .width = hidden_size_});
    multiply(weights, &Expert::gate_up, &Expert::gate_up_bias, inputs_.view(), gathered, gate_up_.data());
    device_->activate({.gate_up = gate_up_.data(),
                       .activation = activation_,
                       .out = from_column(gated_.view(), rank_.first(size)),
                       .rows = gathered,
                       .width = rank_.own(size)});
    ranks.exchange(gated_.view(), size, gathered);
    multiply(weights, &Expert::down, &Expert::down_bias, gated_.view(), gathered, outputs_.data());
    device_->mix_experts(
        {.routing = routing(),
         .outputs = outputs_.data(),
         .gates = weights.router.out_features() > experts_.count ? logits_.data() + experts_.count : nullptr,
         .gate_stride = weights.router.out_features(),
         .adds_to_out = adds_to_delta,
         .out = delta + rank_.first(hidden_size_),
         .out_stride = hidden_size_,
         .rows = rows,
         .width = rank_.own(hidden_size_)});
    ranks.exchange(delta, hidden_size_, rows);
}

void ExpertMlp::route(const ExpertWeights& weights, const Activations& input, int rows) {
    const int stride = weights.router.out_features();
    const float* bias = weights.router_bias.data();
    for (const auto& [matrix, first_column] : weights.router.parts()) {
        device_->product({.input = input,
                          .weight = matrix.get(),
                          .bias = bias ? bias + first_column : nullptr,
                          .out = logits_.data() + first_column,
                          .out_stride = stride,
                          .rows = rows});
    }
    device_->route({.logits = logits_.data(),
                    .stride = stride,
                    .choice_bias = weights.choice_bias.data(),
                    .scales = weights.scales.data(),
                    .rule = experts_.rule,
                    .out = routing(),
                    .rows = rows});
}

void ExpertMlp::multiply(const ExpertWeights& weights, FusedWeight Expert::* weight,
                         DeviceBuffer<float> Expert::* bias, const Activations& input, int rows, float* out) {
    matrices_.clear();
    for (int expert = 0; expert < experts_.count; ++expert) {
        const Expert& one = weights.each[expert];
        const float* const biases = (one.*bias).data();
        for (const auto& [matrix, first_column] : (one.*weight).parts()) {
            matrices_.push_back({.weight = matrix.get(),
                                 .bias = biases ? biases + first_column : nullptr,
                                 .expert = expert,
                                 .first_column = first_column});
        }
    }
    device_->expert_products({.input = input,
                              .matrices = matrices_.data(),
                              .count = static_cast<int>(matrices_.size()),
                              .first_rows = first_rows_.data(),
                              .out = out,
                              .out_stride = (weights.each.front().*weight).out_features(),
                              .rows = rows});
}

}  // namespace outrider
