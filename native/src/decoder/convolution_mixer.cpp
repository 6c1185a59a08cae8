#include "outrider/decoder/convolution_mixer.h"

#include <utility>
#include <vector>

#include "outrider/decoder/linear.h"

namespace outrider {

void ConvolutionWeights::add(WeightBuilder& builder, const DecoderConfig& config, int num_taps,
                             const std::string& prefix) {
    const int hidden = config.hidden_size;
    std::vector<NamedPart> each;
    for (int tap = 0; tap < num_taps; ++tap) {
        each.push_back({prefix + "conv." + std::to_string(tap), hidden});
    }
    builder.add_fused(in, hidden, {{prefix + "conv_in", config.conv_in_size()}});
    builder.add_vectors(taps, each);
    builder.add_fused(out, hidden, {{prefix + "conv_out", hidden}});
    if (config.conv_bias) {
        builder.add_vectors(in_bias, {{prefix + "conv_in_bias", config.conv_in_size()}});
        builder.add_vectors(bias, {{prefix + "conv_bias", hidden}});
        builder.add_vectors(out_bias, {{prefix + "conv_out_bias", hidden}});
    }
}

ConvolutionMixer::ConvolutionMixer(std::shared_ptr<Device> device, const DecoderConfig& config, Format format,
                                   KvFormat kv)
    : device_(std::move(device)),
      hidden_size_(config.hidden_size),
      stored_(conv_format(kv)),
      convolved_(format, hidden_size_) {}

bool ConvolutionMixer::reserve(int rows, Linear& linear) {
    bool moved = projected_.reserve(device_, static_cast<size_t>(rows) * 3 * hidden_size_);
    moved |= convolved_.reserve(device_, rows);
    moved |= linear.reserve(rows, 3 * hidden_size_, hidden_size_);
    return moved;
}

void ConvolutionMixer::run(const ConvolutionWeights& weights, const LayerConfig& layer, void* blocks,
                           const Activations& input, const RowPlaces& places, Linear& linear, float* delta) {
    linear.multiply(input, places.rows, weights.in, weights.in_bias.data(), projected_.data());
    device_->short_convolution({.projected = projected_.data(),
                                .places = places,
                                .taps = weights.taps.data(),
                                .num_taps = layer.taps,
                                .bias = weights.bias.data(),
                                .cache = {blocks, stored_, hidden_size_},
                                .out = convolved_.view()});
    linear.multiply(convolved_.view(), places.rows, weights.out, weights.out_bias.data(), delta);
}

}  // namespace outrider
