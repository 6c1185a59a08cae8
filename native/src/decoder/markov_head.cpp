#include "outrider/decoder/markov_head.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace outrider {

void MarkovWeights::add(WeightBuilder& builder, const DecoderConfig& config, int head_rows,
                        WeightFormat table, WeightFormat head) {
    const FeatureBlock& block = *config.features->block;
    in = builder.add_table({"markov_in", config.vocab_size}, block.markov_rank, table);
    out = builder.add_table({"markov_out", head_rows}, block.markov_rank, head);
    if (block.has_confidence) {
        const bool is_rounded = builder.activation_format() == Format::bf16;
        builder.add_fused(confidence, config.hidden_size + block.markov_rank, {{"confidence", 1}},
                          is_rounded ? WeightFormat::bf16 : WeightFormat::f32);
        builder.add_vectors(confidence_bias, {{"confidence_bias", 1}});
    }
}

MarkovHead::MarkovHead(std::shared_ptr<Device> device, const MarkovWeights& weights, int hidden_size,
                       Format format)
    : device_(std::move(device)),
      weights_(weights),
      hidden_size_(hidden_size),
      rounded_(format, weights.in->in_features()),
      both_(format, hidden_size + weights.in->in_features()) {}

bool MarkovHead::reserve(int rows, int rows_at_once) {
    const size_t count = rows;
    bool moved = indices_.reserve(device_, 2 * count);
    moved |= embedded_.reserve(device_, count * weights_.in->in_features());
    moved |= rounded_.reserve(device_, rows);
    const auto at_once = static_cast<size_t>(rows_at_once) * weights_.out->out_features();
    moved |= bias_.reserve(device_, std::max(count, at_once));
    moved |= both_.reserve(device_, rows);
    return moved;
}

void MarkovHead::shorten(const std::vector<int32_t>& token_ids) {
    const auto num_tokens = static_cast<int>(token_ids.size());
    if (num_tokens == 0) {
        short_out_.reset();
    } else if (!short_out_ || short_out_->num_tokens() != num_tokens) {
        short_out_ = std::make_unique<ShortHead>(device_, *weights_.out, num_tokens);
    }
    if (short_out_) {
        short_out_->choose(token_ids);
    }
}

void MarkovHead::add(const int32_t* token_ids, int rows, float* logits, int width) {
    if (width != out().out_features()) {
        throw std::logic_error("the Markov head and the lm_head are for other tokens");
    }
    embed(token_ids, rows, rounded_.view());
    device_->product(
        {.input = rounded_.view(), .weight = &out(), .out = bias_.data(), .out_stride = width, .rows = rows});
    device_->residual_norm({.residual = logits,
                            .delta = bias_.data(),
                            .out = {logits, Format::f32, width},
                            .rows = rows,
                            .width = width});
}

std::vector<float> MarkovHead::confidences(const Activations& hidden, const std::vector<int32_t>& token_ids) {
    const auto rows = static_cast<int>(token_ids.size());
    std::vector<int32_t> indices(2 * token_ids.size());
    std::iota(indices.begin(), indices.begin() + rows, 0);
    std::copy(token_ids.begin(), token_ids.end(), indices.begin() + rows);
    device_->upload(indices_.data(), indices.data(), indices.size() * sizeof(int32_t));
    const Activations both = both_.view();
    device_->gather_rows(
        {.in = hidden, .indices = indices_.data(), .out = both, .rows = rows, .width = hidden_size_});
    embed(indices_.data() + rows, rows, from_column(both, hidden_size_));
    std::vector<float> values(token_ids.size());
    device_->product({.input = both,
                      .weight = weights_.confidence.parts().front().matrix.get(),
                      .bias = weights_.confidence_bias.data(),
                      .out = bias_.data(),
                      .out_stride = 1,
                      .rows = rows});
    device_->download(values.data(), bias_.data(), values.size() * sizeof(float));
    for (float& value : values) {
        value = 1.0f / (1.0f + std::exp(-value));
    }
    return values;
}

void MarkovHead::embed(const int32_t* token_ids, int rows, const Activations& to) {
    const int rank = weights_.in->in_features();
    device_->embed(
        {.table = weights_.in.get(), .token_ids = token_ids, .residual = embedded_.data(), .rows = rows});
    device_->residual_norm({.residual = embedded_.data(), .out = to, .rows = rows, .width = rank});
}

}  // namespace outrider
