// Whether several devices can hold a model together.
#include <stdexcept>
#include <string>

#include "outrider/decoder/decoder_config.h"

namespace outrider {
namespace {

constexpr int kPair = 2;  // neighbouring activations in bf16, the least that is exchanged

std::string problem_of(const std::string& field, int value, int unit) {
    return value % unit == 0 ? ""
                             : field + " is " + std::to_string(value) + "; it must be a multiple of " +
                                   std::to_string(unit);
}

std::string problem_of_layer(const DecoderConfig& config, int index, int count) {
    const LayerConfig& layer = config.layers[index];
    const std::string name = "layers[" + std::to_string(index) + "].";
    std::string problem;
    if (layer.kind == LayerKind::attention) {  // whose heads are a multiple of these
        problem = problem_of(layer.num_kv_heads ? name + "num_kv_heads" : "num_kv_heads",
                             layer.num_kv_heads.value_or(config.num_kv_heads), count);
    }
    if (layer.kind == LayerKind::attention && problem.empty()) {
        problem = problem_of("num_heads * head_dim", config.attended_size(layer), count * kPair);
    }
    if (layer.kind == LayerKind::gated_delta) {  // whose value heads are a multiple of these
        problem = problem_of(name + "key_heads", layer.delta.key_heads, count);
    }
    return problem.empty() ? problem_of(layer.mlp_size ? name + "mlp_size" : "intermediate_size",
                                        config.mlp_size(index), count * kPair)
                           : problem;
}

/// The first field by which so many devices cannot share the model; empty if they can.
std::string problem_of(const DecoderConfig& config, int count) {
    if (config.qk_norm == QkNorm::full) {
        return "qk_norm is \"full\"; it must be \"none\", \"head\" or \"each\"";
    }
    std::string problem;
    for (int index = 0; problem.empty() && index < config.num_layers(); ++index) {
        problem = problem_of_layer(config, index, count);
    }
    if (problem.empty() && config.experts) {
        problem = problem_of("experts.size", config.experts->size, count * kPair);
    }
    return problem.empty() ? problem_of("hidden_size", config.hidden_size, count) : problem;
}

}  // namespace

void DecoderConfig::validate_ranks(int count) const {
    if (features) {
        throw std::invalid_argument("device: an attached drafter has one");
    }
    const std::string problem = problem_of(*this, count);
    if (problem.empty()) {
        return;
    }
    std::string fitting = "1";
    for (int other = 2; other <= kMostRanks; ++other) {
        fitting += problem_of(*this, other).empty() ? ", " + std::to_string(other) : "";
    }
    throw std::invalid_argument(problem + " on " + std::to_string(count) +
                                " devices (numbers of devices that fit: " + fitting + ")");
}

}  // namespace outrider
