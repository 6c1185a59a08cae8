// Token masks: one bit for each token that may be drawn.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "outrider/device/host_device.h"
#include "outrider/sampling/sampler.h"

namespace outrider {

constexpr int kMaskBits = 32;  // per word

constexpr int64_t num_mask_words(int64_t vocab_size) {
    return (vocab_size + kMaskBits - 1) / kMaskBits;
}

OUTRIDER_HOST_DEVICE inline bool may_draw(const uint32_t* mask, int64_t token_id) {
    return (mask[token_id / kMaskBits] >> (token_id % kMaskBits) & 1U) != 0;
}

/// Throws std::invalid_argument, naming `what`, for masks that do not cover the whole vocabulary.
inline void require_fitting(const std::string& what, const TokenMasks& masks, int vocab_size) {
    const int64_t needed = num_mask_words(vocab_size);
    if (masks.words != nullptr && masks.num_words < needed) {
        throw std::invalid_argument(what + ": rows of " + std::to_string(masks.num_words) +
                                    " words; the vocabulary needs " + std::to_string(needed));
    }
}

}  // namespace outrider
