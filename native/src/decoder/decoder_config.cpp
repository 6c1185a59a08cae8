#include "outrider/decoder/decoder_config.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "outrider/decoder/limits.h"
#include "require_range.h"
#include "sampling/mass.h"

namespace outrider {
namespace {

void require(bool condition, const std::string& message) {
    if (!condition) {
        throw std::invalid_argument(message);
    }
}

void require_not_negative(const char* field, float value) {
    require(std::isfinite(value) && value >= 0.0f,
            std::string(field) + " is " + std::to_string(value) + "; it must be finite and not negative");
}

void require_length(const char* field, size_t length, int num_layers) {
    require(length == static_cast<size_t>(num_layers), std::string(field) + " has " + std::to_string(length) +
                                                           " entries; it must have one for each of the " +
                                                           std::to_string(num_layers) + " layers");
}

void validate_rotary(const DecoderConfig& config) {
    for (const RotaryTable& table : config.rotary_tables) {
        require(2 * table.frequencies.size() <= static_cast<size_t>(config.head_dim),
                "rope_frequencies has a table of " + std::to_string(table.frequencies.size()) +
                    " entries; it must have at most half of head_dim = " + std::to_string(config.head_dim));
    }
    for (const int table : config.rope_of_layer) {
        require(table >= 0 && static_cast<size_t>(table) < config.rotary_tables.size(),
                "rope_of_layer names table " + std::to_string(table) + "; there are " +
                    std::to_string(config.rotary_tables.size()));
    }
}

/// Each on its own and those that make up one matrix together: all other sizes follow from them.
void validate_sizes(const DecoderConfig& config) {
    require_range("num_layers", config.num_layers, 1, kMostLayers);
    require_range("hidden_size", config.hidden_size, 1, kMostFeatures);
    require_range("intermediate_size", config.intermediate_size, 1, kMostFeatures / 2);
    require_range("num_heads", config.num_heads, 1, kMostFeatures);
    require_range("num_kv_heads", config.num_kv_heads, 1, kMostFeatures);
    require_range("head_dim", config.head_dim, 1, kMostFeatures);
    require_range("vocab_size", config.vocab_size, 1, kMostTokens);
    require_range("max_position", config.max_position, 1, std::numeric_limits<int>::max());
    const int64_t heads = int64_t{config.num_heads} + 2 * int64_t{config.num_kv_heads};
    require_range("(num_heads + 2 * num_kv_heads) * head_dim", heads * config.head_dim, 1, kMostFeatures);
}

}  // namespace

void DecoderConfig::validate() const {
    validate_sizes(*this);
    require(num_heads % num_kv_heads == 0,
            "num_heads is " + std::to_string(num_heads) +
                "; it must be a multiple of num_kv_heads = " + std::to_string(num_kv_heads));
    require_not_negative("norm_eps", norm_eps);
    require_not_negative("attention_softcap", attention_softcap);
    require_not_negative("logit_softcap", logit_softcap);
    require_length("windows", windows.size(), num_layers);
    require_length("rope_of_layer", rope_of_layer.size(), num_layers);
    for (const int window : windows) {
        require(window >= 0,
                "windows has " + std::to_string(window) + "; a window is positive, or 0 for none");
    }
    validate_rotary(*this);
}

}  // namespace outrider
