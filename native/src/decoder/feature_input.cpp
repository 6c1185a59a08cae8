#include "outrider/decoder/feature_input.h"

#include <string>
#include <utility>

#include "outrider/decoder/linear.h"

namespace outrider {
namespace {

/// The same rows from a column on.
Activations from_column(const Activations& rows, int column) {
    char* const data = static_cast<char*>(rows.data) + column * size_of(rows.format);
    return {data, rows.format, rows.stride};
}

}  // namespace

/// A few channels of the residual stream are a thousand times as large as the others, which a row of int8
/// would round away: the features keep the precision of floats.
void FeatureWeights::add(WeightBuilder& builder, const DecoderConfig& config) {
    const Features& features = *config.features;
    const bool is_rounded = builder.activation_format() == Format::bf16;
    builder.add_fused(fc, features.size(), {{"fc", config.hidden_size}},
                      is_rounded ? WeightFormat::bf16 : WeightFormat::f32);
    if (features.norm == FeatureNorm::all) {
        builder.add_vectors(norm, {{"feature_norm", features.size()}});
    } else if (features.norm == FeatureNorm::each) {
        std::vector<NamedPart> parts;
        for (int index = 0; index < features.count; ++index) {
            parts.push_back({"feature_norm." + std::to_string(index), features.width});
        }
        builder.add_vectors(norm, parts);
    }
    builder.add_vectors(hidden_norm, {{"hidden_norm", config.hidden_size}});
}

FeatureInput::FeatureInput(std::shared_ptr<Device> device, const DecoderConfig& config, Format format)
    : device_(std::move(device)),
      config_(config),
      fc_input_(format, config.features->size()),
      attention_input_(format, 2 * config.hidden_size) {}

bool FeatureInput::reserve(int rows, Linear& linear) {
    const size_t count = rows;
    bool moved = indices_.reserve(device_, count);
    moved |= gathered_.reserve(device_, count * config_.features->size());
    moved |= fc_input_.reserve(device_, rows);
    if (hidden_.reserve(device_, count * config_.hidden_size)) {
        num_rows_ = 0;
        moved = true;
    }
    moved |= carried_.reserve(device_, count * config_.hidden_size);
    moved |= attention_input_.reserve(device_, rows);
    moved |= linear.reserve(rows, config_.hidden_size, config_.features->size());
    return moved;
}

void FeatureInput::read(const FeatureWeights& weights, const float* features,
                        const std::vector<int32_t>& rows, Linear& linear) {
    const Features& shape = *config_.features;
    const auto count = static_cast<int>(rows.size());
    device_->upload(indices_.data(), rows.data(), rows.size() * sizeof(int32_t));
    const int num_parts = shape.norm == FeatureNorm::each ? shape.count : 1;
    const int width = shape.size() / num_parts;
    for (int part = 0; part < num_parts; ++part) {
        const int column = part * width;
        device_->gather_rows({.in = {const_cast<float*>(features) + column, Format::f32, shape.size()},
                              .indices = indices_.data(),
                              .out = {gathered_.data(), Format::f32, width},
                              .rows = count,
                              .width = width});
        device_->residual_norm({.residual = gathered_.data(),
                                .norm = weights.norm.data() ? weights.norm.data() + column : nullptr,
                                .eps = config_.norm_eps,
                                .out = from_column(fc_input_.view(), column),
                                .rows = count,
                                .width = width});
    }
    linear.multiply(fc_input_.view(), count, weights.fc, nullptr, hidden_.data());
    num_rows_ = count;
}

void FeatureInput::begin(const FeatureWeights& weights, float* embedded, const float* embedding_norm,
                         float* residual, int rows) {
    const int width = config_.hidden_size;
    const auto normalise = [&](float* values, const float* norm, const Activations& out) {
        device_->residual_norm({.residual = values,
                                .norm = norm,
                                .eps = config_.norm_eps,
                                .out = out,
                                .rows = rows,
                                .width = width});
    };
    const float* const hidden_norm = weights.hidden_norm.data();
    normalise(embedded, embedding_norm, attention_input());
    normalise(hidden_.data(), hidden_norm, from_column(attention_input(), width));
    normalise(hidden_.data(), config_.features->norm_residual ? hidden_norm : nullptr,
              {residual, Format::f32, width});
}

void FeatureInput::carry(float* residual, const float* final_norm, const int32_t* logit_rows,
                         int num_logits) {
    const int width = config_.hidden_size;
    const bool is_normed = config_.features->norm_carried;
    float* const carried = is_normed ? carried_.data() : hidden_.data();
    device_->gather_rows({.in = {residual, Format::f32, width},
                          .indices = logit_rows,
                          .out = {carried, Format::f32, width},
                          .rows = num_logits,
                          .width = width});
    if (is_normed) {
        device_->residual_norm({.residual = carried,
                                .norm = final_norm,
                                .eps = config_.norm_eps,
                                .out = {hidden_.data(), Format::f32, width},
                                .rows = num_logits,
                                .width = width});
    }
}

}  // namespace outrider
