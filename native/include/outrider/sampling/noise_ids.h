// NoiseIds: maps each token of a vocabulary to the token of another vocabulary whose noise it uses.
#pragma once

#include <cstdint>
#include <vector>

namespace outrider {

constexpr int32_t kNoPartner = -1;

/// Token i is drawn with the noise of token ids[i] of another vocabulary; a token without a partner is never
/// drawn. Two models with different vocabularies thus tend to draw the same text, as two with one vocabulary
/// do.
struct NoiseIds {
    std::vector<int32_t> ids;  // [vocab_size]
};

}  // namespace outrider
