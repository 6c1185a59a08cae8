#include "outrider/decoder/latent_mixer.h"

#include <algorithm>
#include <utility>

#include "outrider/decoder/linear.h"

namespace outrider {

void LatentWeights::add(WeightBuilder& builder, const DecoderConfig& config, const std::string& prefix) {
    const LatentShape shape = config.latent_shape();
    const int heads = config.num_heads;
    if (shape.query_rank > 0) {
        builder.add_fused(query_down, config.hidden_size, {{prefix + "q_down", shape.query_rank}});
        builder.add_vectors(query_norm, {{prefix + "q_down_norm", shape.query_rank}});
    }
    builder.add_fused(query, shape.query_rank > 0 ? shape.query_rank : config.hidden_size,
                      {{prefix + "q", heads * shape.query_dim()}});
    builder.add_fused(compress, config.hidden_size, {{prefix + "kv_down", shape.width()}});
    builder.add_vectors(latent_norm, {{prefix + "kv_norm", shape.rank}});
    keys.resize(heads);
    values.resize(heads);
    for (int head = 0; head < heads; ++head) {
        const std::string number = std::to_string(head);
        builder.add_fused(keys[head], shape.key_dim, {{prefix + "k_up." + number, shape.rank}});
        builder.add_fused(values[head], shape.rank, {{prefix + "v_up." + number, shape.value_dim}});
    }
    builder.add_fused(output, heads * shape.value_dim, {{prefix + "o", config.hidden_size}});
}

int64_t LatentWeights::bytes_of_heads() const {
    int64_t total = 0;
    for (const auto* each : {&keys, &values}) {
        for (const FusedWeight& weight : *each) {
            total += weight.bytes();
        }
    }
    return total;
}

LatentMixer::LatentMixer(std::shared_ptr<Device> device, const DecoderConfig& config, Format format,
                         KvFormat kv)
    : device_(std::move(device)),
      shape_(config.latent_shape()),
      rope_(shape_.rank > 0 ? &config.ropes.front() : nullptr),
      num_heads_(config.num_heads),
      hidden_size_(config.hidden_size),
      query_scale_(config.query_scale),
      kv_(kv),
      query_input_(format, shape_.query_rank),
      rounded_(format, num_heads_ * shape_.query_dim()),
      attended_(format, num_heads_ * shape_.rank),
      heads_(format, num_heads_ * shape_.value_dim) {
    if (rope_) {
        const std::vector<float>& frequencies = rope_->frequencies;
        frequencies_ = DeviceBuffer<float>(device_, frequencies.size());
        device_->upload(frequencies_.data(), frequencies.data(), frequencies.size() * sizeof(float));
    }
}

bool LatentMixer::reserve(const PassShape& shape, Linear& linear) {
    const auto rows = static_cast<size_t>(shape.rows);
    const int queries = num_heads_ * shape_.query_dim();
    const int values = num_heads_ * shape_.value_dim;
    bool moved = angles_.reserve(device_, rows * shape_.turning);
    moved |= query_down_.reserve(device_, rows * shape_.query_rank);
    moved |= query_input_.reserve(device_, shape.rows);
    moved |= queries_.reserve(device_, rows * queries);
    moved |= rounded_.reserve(device_, shape.rows);
    moved |= latent_queries_.reserve(device_, rows * num_heads_ * shape_.width());
    moved |= compressed_.reserve(device_, rows * shape_.width());
    moved |= attended_.reserve(device_, shape.rows);
    moved |= values_.reserve(device_, rows * values);
    moved |= heads_.reserve(device_, shape.rows);
    moved |= scratch_.reserve(
        device_, device_->attention_scratch(shape.rows, shape.blocks, num_heads_, shape_.width()));
    moved |= linear.reserve(shape.rows, queries, std::max(hidden_size_, shape_.query_rank));
    moved |= linear.reserve(shape.rows, shape_.width(), hidden_size_);
    moved |= linear.reserve(shape.rows, shape_.query_rank, hidden_size_);
    moved |= linear.reserve(shape.rows, hidden_size_, values);
    return moved;
}

void LatentMixer::rotate(const RowPlaces& places) {
    device_->rotary_angles({.positions = places.positions,
                            .frequencies = frequencies_.data(),
                            .scale = rope_->scale,
                            .half_dim = shape_.turning / 2,
                            .out = angles_.data(),
                            .rows = places.rows});
}

void LatentMixer::run(const LatentWeights& weights, void* blocks, const Activations& input,
                      const RowPlaces& places, Linear& linear, float* delta) {
    ask(weights, input, places.rows, linear);
    linear.multiply(input, places.rows, weights.compress, nullptr, compressed_.data());
    const KvLayer cache = kv_layer(blocks);
    device_->store_latents({.compressed = compressed_.data(),
                            .norm = weights.latent_norm.data(),
                            .eps = shape_.norm_eps,
                            .queries = queries_.data(),
                            .query_dim = shape_.query_dim(),
                            .latent_queries = latent_queries_.data(),
                            .query_scale = query_scale_,
                            .num_heads = num_heads_,
                            .places = places,
                            .angles = angles_.data(),
                            .half_dim = shape_.turning / 2,
                            .cache = cache});
    RowPlaces seen = places;
    seen.ends = nullptr;
    device_->attention({.qkv = latent_queries_.data(),
                        .qkv_stride = int64_t{num_heads_} * shape_.width(),
                        .places = seen,
                        .num_heads = num_heads_,
                        .cache = cache,
                        .out = attended_.view(),
                        .scratch = scratch_.data()});
    multiply_heads(weights.values, attended_.view(), places.rows, shape_.rank, values_.data(),
                   shape_.value_dim);
    round(values_.data(), nullptr, heads_, places.rows, num_heads_ * shape_.value_dim);
    linear.multiply(heads_.view(), places.rows, weights.output, nullptr, delta);
}

void LatentMixer::ask(const LatentWeights& weights, const Activations& input, int rows, Linear& linear) {
    Activations source = input;
    if (shape_.query_rank > 0) {
        linear.multiply(input, rows, weights.query_down, nullptr, query_down_.data());
        round(query_down_.data(), weights.query_norm.data(), query_input_, rows, shape_.query_rank);
        source = query_input_.view();
    }
    linear.multiply(source, rows, weights.query, nullptr, queries_.data());
    round(queries_.data(), nullptr, rounded_, rows, num_heads_ * shape_.query_dim());
    multiply_heads(weights.keys, rounded_.view(), rows, shape_.query_dim(), latent_queries_.data(),
                   shape_.width());
}

void LatentMixer::multiply_heads(const std::vector<FusedWeight>& heads, const Activations& input, int rows,
                                 int in_step, float* out, int out_step) {
    matrices_.clear();
    for (int head = 0; head < num_heads_; ++head) {
        for (const auto& [matrix, first_column] : heads[head].parts()) {
            matrices_.push_back({.weight = matrix.get(), .expert = head, .first_column = first_column});
        }
    }
    device_->expert_products({.input = input,
                              .matrices = matrices_.data(),
                              .count = static_cast<int>(matrices_.size()),
                              .in_step = in_step,
                              .out_step = out_step,
                              .out = out,
                              .out_stride = int64_t{num_heads_} * out_step,
                              .rows = rows});
}

void LatentMixer::round(float* values, const float* norm, const ActivationBuffer& out, int rows, int width) {
    device_->residual_norm({.residual = values,
                            .norm = norm,
                            .eps = shape_.norm_eps,
                            .out = out.view(),
                            .rows = rows,
                            .width = width});
}

KvLayer LatentMixer::kv_layer(void* blocks) const {
    return {blocks, kv_, 1, shape_.width(), shape_.rank};
}

}  // namespace outrider
