#include "sampling/host/row/draw.h"

#include <algorithm>
#include <limits>

namespace outrider {
namespace {

constexpr int kGroup = 4;  // token ids per call of Philox

/// The best candidate so far. Candidates that cannot reach its score are skipped: float addition is monotone,
/// so a bound on the noise bounds the score, and the result is that of the full argmax.
class Winner {
  public:
    Winner(int32_t token_id, float score) : token_id_(token_id), score_(score) {}

    int32_t token_id() const { return token_id_; }
    float score() const { return score_; }
    bool within_reach(float value, float noise_bound) const { return value + noise_bound >= score_; }

    void challenge(int32_t token_id, float score) {
        if (score > score_ || (score == score_ && token_id < token_id_)) {
            token_id_ = token_id;
            score_ = score;
        }
    }

  private:
    int32_t token_id_;
    float score_;
};

float greatest(const float* values, int count) {
    return *std::max_element(values, values + count);
}

void challenge_group(const float* values, int count, int32_t first, const NoiseKey& key, Winner* winner) {
    const PhiloxCounter words = key.words(static_cast<uint32_t>(first / kGroup));
    for (int i = 0; i < count; ++i) {
        if (winner->within_reach(values[i], gumbel_bound(words[i]))) {
            winner->challenge(first + i, values[i] + gumbel(words[i]));
        }
    }
}

constexpr float kNothing = -std::numeric_limits<float>::infinity();

uint32_t word_of(int32_t token_id, const NoiseKey& key) {
    return key.words(static_cast<uint32_t>(token_id / kGroup))[token_id % kGroup];
}

}  // namespace

int32_t draw(const float* values, int count, int32_t best_id, const NoiseKey& key) {
    Winner winner(best_id, values[best_id] + gumbel(word_of(best_id, key)));
    for (int32_t first = 0; first < count; first += kGroup) {
        const int size = std::min(kGroup, count - first);
        if (winner.within_reach(greatest(values + first, size), kMaxNoise)) {
            challenge_group(values + first, size, first, key, &winner);
        }
    }
    return winner.token_id();
}

int32_t draw_as(const int32_t* noise_ids, const float* values, int count, int32_t best_id,
                const NoiseKey& key) {
    Winner winner(best_id, values[best_id] + gumbel(word_of(noise_ids[best_id], key)));
    for (int32_t id = 0; id < count; ++id) {
        if (winner.within_reach(values[id], kMaxNoise)) {
            winner.challenge(id, values[id] + gumbel(word_of(noise_ids[id], key)));
        }
    }
    return winner.token_id();
}

float margin(const float* values, int count, int32_t drawn, const NoiseKey& key) {
    Winner runner_up(count, kNothing);
    for (int32_t id = 0; id < count; ++id) {
        if (id != drawn && runner_up.within_reach(values[id], kMaxNoise)) {
            runner_up.challenge(id, values[id] + gumbel(word_of(id, key)));
        }
    }
    return values[drawn] + gumbel(word_of(drawn, key)) - runner_up.score();
}

float greedy_margin(const float* values, int count, int32_t drawn) {
    const float before = drawn > 0 ? greatest(values, drawn) : kNothing;
    const float after = drawn + 1 < count ? greatest(values + drawn + 1, count - drawn - 1) : kNothing;
    return values[drawn] - std::max(before, after);
}

}  // namespace outrider
