#include "outrider/decoder/feature_input.h"

#include <string>
#include <utility>

#include "outrider/decoder/linear.h"

namespace outrider {

/// A few channels of the residual stream are a thousand times as large as the others, which a row of int8
/// would round away: the features keep the precision of floats.
void FeatureWeights::add(WeightBuilder& builder, const DecoderConfig& config) {
    const Features& features = *config.features;
    const int hidden = config.hidden_size;
    const bool is_rounded = builder.activation_format() == Format::bf16;
    const WeightFormat format = is_rounded ? WeightFormat::bf16 : WeightFormat::f32;
    const int fc_inputs = features.fc_reads_both ? 2 * config.row_vector_size() : features.size();
    builder.add_fused(fc, fc_inputs, {{"fc", hidden}}, format);
    if (features.norm == FeatureNorm::all) {
        builder.add_vectors(norm, {{"feature_norm", features.size()}});
    } else if (features.norm == FeatureNorm::each) {
        std::vector<NamedPart> parts;
        for (int index = 0; index < features.count; ++index) {
            parts.push_back({"feature_norm." + std::to_string(index), features.width});
        }
        builder.add_vectors(norm, parts);
    }
    if (config.reads_target()) {
        builder.add_fused(carried, hidden, {{"carried_projection", features.width}}, format);
    } else {
        builder.add_vectors(hidden_norm, {{"hidden_norm", hidden}});
    }
    if (features.fc_reads_both && !config.reads_target()) {
        builder.add_vectors(embedding_norm, {{"embedding_norm", hidden}});
    }
    if (config.block() && config.block()->continues_rows) {
        builder.add_vectors(mask, {{"mask_features", features.size()}});
    }
}

FeatureInput::FeatureInput(std::shared_ptr<Device> device, const DecoderConfig& config, Format format)
    : device_(std::move(device)),
      config_(config),
      features_(format, config.features->size()),
      projected_(format, config.hidden_size),
      normed_(format, (config.has_hidden_rows() ? 2 : 1) * config.row_vector_size()) {}

bool FeatureInput::reserve(int rows, Linear& linear) {
    const Features& features = *config_.features;
    const int hidden = config_.hidden_size;
    const int vector = config_.row_vector_size();
    const size_t count = rows;
    bool moved = indices_.reserve(device_, count);
    moved |= gathered_.reserve(device_, count * features.size());
    if (hidden_.size() < count * vector) {
        DeviceBuffer<float> larger(device_, count * vector);
        if (num_rows_ > 0) {
            device_->copy(larger.data(), hidden_.data(), sizeof(float) * num_rows_ * vector);
        }
        hidden_ = std::move(larger);
        moved = true;
    }
    if (config_.block() && config_.block()->continues_rows) {
        moved |= mask_.reserve(device_, hidden);
    }
    if (config_.has_hidden_rows()) {
        moved |= embedded_.reserve(device_, count * vector);
    }
    if (config_.carries_hidden()) {
        moved |= carried_.reserve(device_, count * hidden);
    }
    if (config_.reads_target()) {
        moved |= projected_.reserve(device_, rows);
        moved |= linear.reserve(rows, vector, hidden);
    }
    if (normed_.reserve(device_, rows)) {
        num_rows_ = config_.has_context() ? 0 : num_rows_;
        moved = true;
    }
    if (features.fc_reads_both) {
        moved |= linear.reserve(rows, hidden, 2 * vector);
    } else {
        moved |= features_.reserve(device_, rows);
        moved |= linear.reserve(rows, hidden, features.size());
    }
    return moved;
}

void FeatureInput::read(const FeatureWeights& weights, const float* features,
                        const std::vector<int32_t>& rows, Linear& linear) {
    const Features& shape = *config_.features;
    const auto count = static_cast<int>(rows.size());
    device_->upload(indices_.data(), rows.data(), rows.size() * sizeof(int32_t));
    const int width = shape.norm == FeatureNorm::each ? shape.width : shape.size();
    for (int column = 0; column < shape.size(); column += width) {
        device_->gather_rows({.in = {const_cast<float*>(features) + column, Format::f32, shape.size()},
                              .indices = indices_.data(),
                              .out = {gathered_.data(), Format::f32, width},
                              .rows = count,
                              .width = width});
        normalise_features(weights, gathered_.data(), column, width, count);
    }
    if (!shape.fc_reads_both) {
        linear.multiply(features_.view(), count, weights.fc, nullptr, hidden_.data());
    }
    if (!config_.has_hidden_rows()) {
        normalise(hidden_.data(), weights.hidden_norm.data(), normed(), count, config_.hidden_size);
    }
    num_rows_ = count;
}

void FeatureInput::add_masks(const FeatureWeights& weights, int first_row, int count, Linear& linear) {
    const Features& shape = *config_.features;
    const int hidden = config_.hidden_size;
    if (!has_mask_) {
        const int width = shape.norm == FeatureNorm::each ? shape.width : shape.size();
        for (int column = 0; column < shape.size(); column += width) {
            normalise_features(weights, weights.mask.data() + column, column, width, 1);
        }
        linear.multiply(features_.view(), 1, weights.fc, nullptr, mask_.data());
        has_mask_ = true;
    }
    const std::vector<int32_t> indices(count, 0);
    device_->upload(indices_.data(), indices.data(), indices.size() * sizeof(int32_t));
    device_->gather_rows({.in = {mask_.data(), Format::f32, hidden},
                          .indices = indices_.data(),
                          .out = {hidden_.data() + int64_t{first_row} * hidden, Format::f32, hidden},
                          .rows = count,
                          .width = hidden});
    num_rows_ = first_row + count;
}

/// Norms some of the columns of each row's features.
void FeatureInput::normalise_features(const FeatureWeights& weights, float* features, int column, int width,
                                      int rows) {
    const Activations out = config_.features->fc_reads_both ? Activations{hidden_.data(), Format::f32, width}
                                                            : from_column(features_.view(), column);
    normalise(features, weights.norm.data() ? weights.norm.data() + column : nullptr, out, rows, width);
}

void FeatureInput::begin(const FeatureWeights& weights, const float* embedding_norm, float* residual,
                         int rows, Linear& linear) {
    const int width = config_.row_vector_size();
    const float* const hidden_norm = weights.hidden_norm.data();
    normalise(embedded_.data(), embedding_norm, normed(), rows, width);
    normalise(hidden_.data(), hidden_norm, from_column(normed(), width), rows, width);
    if (config_.features->fc_reads_both) {
        linear.multiply(normed(), rows, weights.fc, nullptr, residual);
    } else {
        normalise(hidden_.data(), config_.features->norm_residual ? hidden_norm : nullptr,
                  {residual, Format::f32, width}, rows, width);
    }
}

void FeatureInput::carry(const FeatureWeights& weights, float* residual, const float* final_norm,
                         const int32_t* logit_rows, int num_logits, Linear& linear) {
    const int width = config_.hidden_size;
    const bool is_normed = config_.features->norm_carried;
    float* const carried = is_normed ? carried_.data() : hidden_.data();
    device_->gather_rows({.in = {residual, Format::f32, width},
                          .indices = logit_rows,
                          .out = {carried, Format::f32, width},
                          .rows = num_logits,
                          .width = width});
    if (config_.reads_target()) {
        normalise(carried, final_norm, projected_.view(), num_logits, width);
        linear.multiply(projected_.view(), num_logits, weights.carried, nullptr, hidden_.data());
    } else if (is_normed) {
        normalise(carried, final_norm, {hidden_.data(), Format::f32, width}, num_logits, width);
    }
}

/// Without a norm the values are copied.
void FeatureInput::normalise(float* values, const float* norm, const Activations& out, int rows, int width) {
    device_->residual_norm({.residual = values,
                            .norm = norm,
                            .eps = config_.norm_eps,
                            .out = out,
                            .rows = rows,
                            .width = width});
}

}  // namespace outrider
