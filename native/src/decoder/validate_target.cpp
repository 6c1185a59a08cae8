// Whether an attached drafter fits its target.
#include <stdexcept>
#include <string>

#include "outrider/decoder/decoder_config.h"
#include "require_range.h"

namespace outrider {
namespace {

/// Layers may only read the keys and values of layers with heads like their own.
void validate_layers(const DecoderConfig& config, const DecoderConfig& target) {
    if (target.rank.count > 1) {
        throw std::invalid_argument(
            "target: must be on one device for a drafter that reads its keys and values");
    }
    for (int index = 0; index < config.num_layers(); ++index) {
        const std::string name = "layers[" + std::to_string(index) + "].";
        const int from = *config.layers[index].target_layer;
        require_range(name + "target_layer", from, 0, target.num_layers() - 1);
        const AttentionShape own = config.attention(index);
        const AttentionShape others = target.attention(from);
        if (target.layers[from].kind != LayerKind::attention || !others.stores) {
            throw std::invalid_argument(name + "target_layer is " + std::to_string(from) +
                                        "; it must be a layer with keys and values of its own");
        }
        require_range(name + "head_dim", own.head_dim, others.head_dim, others.head_dim);
        require_range(name + "num_kv_heads", own.num_kv_heads, others.num_kv_heads, others.num_kv_heads);
    }
}

}  // namespace

void DecoderConfig::validate_target(const DecoderConfig& target) const {
    require_range("features.width", features->width, target.hidden_size, target.hidden_size);
    require_range("vocab_size", vocab_size, target.vocab_size, target.vocab_size);
    if (reads_target()) {
        validate_layers(*this, target);
    } else if (!(features->own_embedding && features->head_size > 0)) {
        require_range("hidden_size", hidden_size, target.hidden_size, target.hidden_size);
    }
}

}  // namespace outrider
