#include "outrider/decoder/delta_mixer.h"

#include <utility>
#include <vector>

#include "outrider/decoder/linear.h"

namespace outrider {
namespace {

/// The rank's channels of a weight: of queries, of keys and of values.
std::vector<NamedPart> own_channels(const Rank& rank, const DeltaShape& whole, const std::string& name) {
    if (rank.count == 1) {
        return {{name, whole.channels()}};
    }
    std::vector<NamedPart> parts;
    int begin = 0;
    for (const int size : {whole.key_size(), whole.key_size(), whole.value_size()}) {
        parts.push_back({name, rank.own(size), begin + rank.first(size), whole.channels()});
        begin += size;
    }
    return parts;
}

}  // namespace

/// The rates and decays act on the state for the rest of the sequence, so their weights have the precision of their
/// input.
void DeltaWeights::add(WeightBuilder& builder, const DecoderConfig& config, const std::string& prefix) {
    const DeltaShape shape = config.delta_shape();
    const int hidden = config.hidden_size;
    const bool is_rounded = builder.activation_format() == Format::bf16;
    builder.add_fused(projection, hidden, own_channels(builder.rank(), shape, prefix + "delta_qkv"));
    builder.add_fused(opening, hidden, {builder.own(prefix + "delta_z", shape.value_size())});
    builder.add_fused(gates, hidden,
                      {builder.own(prefix + "delta_b", shape.value_heads),
                       builder.own(prefix + "delta_a", shape.value_heads)},
                      is_rounded ? WeightFormat::bf16 : WeightFormat::f32);
    std::vector<NamedPart> each;
    for (int tap = 0; tap < shape.taps; ++tap) {
        for (NamedPart& part :
             own_channels(builder.rank(), shape, prefix + "delta_conv." + std::to_string(tap))) {
            each.push_back(std::move(part));
        }
    }
    builder.add_vectors(taps, each);
    builder.add_vectors(decay_log, {builder.own(prefix + "delta_decay", shape.value_heads)});
    builder.add_vectors(decay_bias, {builder.own(prefix + "delta_decay_bias", shape.value_heads)});
    builder.add_vectors(norm, {{prefix + "delta_scale", shape.value_dim}});
    builder.add_fused(output, shape.value_size(), {builder.own(prefix + "delta_out", hidden)});
}

DeltaMixer::DeltaMixer(std::shared_ptr<Device> device, const DecoderConfig& config, Format format)
    : device_(std::move(device)),
      shape_(config.own_delta_shape()),
      hidden_size_(config.hidden_size),
      all_values_(config.delta_shape().value_size()),
      eps_(config.norm_eps),
      normed_(format, all_values_) {}

bool DeltaMixer::reserve(int rows, int sequences, int ring_rows, Linear& linear) {
    const auto count = static_cast<size_t>(rows);
    bool moved = projected_.reserve(device_, count * shape_.channels());
    moved |= opened_.reserve(device_, count * shape_.value_size());
    moved |= gates_.reserve(device_, count * 2 * shape_.value_heads);
    moved |= mixed_.reserve(device_, count * shape_.value_size());
    moved |= scratch_.reserve(device_, device_->delta_scratch(shape_, rows, sequences, ring_rows));
    moved |= normed_.reserve(device_, rows);
    moved |= linear.reserve(rows, shape_.channels(), hidden_size_);
    moved |= linear.reserve(rows, hidden_size_, all_values_);
    return moved;
}

void DeltaMixer::run(const DeltaWeights& weights, void* slots, const PassStates& states,
                     const Activations& input, const RowPlaces& places, Linear& linear, float* delta) {
    linear.multiply(input, places.rows, weights.projection, nullptr, projected_.data());
    linear.multiply(input, places.rows, weights.opening, nullptr, opened_.data());
    linear.multiply(input, places.rows, weights.gates, nullptr, gates_.data());
    device_->delta_rule({.projected = projected_.data(),
                         .gates = gates_.data(),
                         .places = places,
                         .states = states.places,
                         .sequences = states.sequences,
                         .taps = weights.taps.data(),
                         .decay_log = weights.decay_log.data(),
                         .decay_bias = weights.decay_bias.data(),
                         .shape = shape_,
                         .slots = static_cast<float*>(slots),
                         .ring_rows = states.ring_rows,
                         .scratch = scratch_.data(),
                         .out = mixed_.data()});
    device_->gated_norm({.values = mixed_.data(),
                         .gates = opened_.data(),
                         .norm = weights.norm.data(),
                         .eps = eps_,
                         .out = from_column(normed_.view(), linear.ranks().own().first(all_values_)),
                         .rows = places.rows,
                         .heads = shape_.value_heads,
                         .head_dim = shape_.value_dim});
    linear.ranks().exchange(normed_.view(), all_values_, places.rows);
    linear.multiply_all(normed_.view(), places.rows, weights.output, nullptr, delta, hidden_size_);
}

}  // namespace outrider
