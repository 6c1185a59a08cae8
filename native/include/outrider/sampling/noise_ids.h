// NoiseIds: for each token of a vocabulary, as which token of another one it is drawn.
#pragma once

#include <cstdint>
#include <vector>

namespace outrider {

constexpr int32_t kNoPartner = -1;

/// The token with id i is drawn with the noise of the token ids[i] of another vocabulary; one without a
/// partner there is never drawn. Two models whose vocabularies differ so guess the same text, as two with one
/// vocabulary do.
struct NoiseIds {
    std::vector<int32_t> ids;  // [vocab_size]
};

}  // namespace outrider
