#include "outrider/sampling/noise.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sampling/gumbel.h"

namespace outrider {
float gumbel(uint32_t word) {
    return static_cast<float>(noise_of(static_cast<double>(word)));
}

void gumbel(const uint32_t* words, int64_t count, float* noise) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        Words some;
        std::memcpy(&some, words + i, sizeof some);
        const Floats rounded =
            __builtin_convertvector(noise_of(__builtin_convertvector(some, Doubles)), Floats);
        std::memcpy(noise + i, &rounded, sizeof rounded);
    }
    for (; i < count; ++i) {
        noise[i] = gumbel(words[i]);
    }
}

float gumbel_bound(uint32_t word) {
    constexpr float kLn2Above = 0x1.62e43p-1f;
    // w = odd / 2^33, and odd >= 2^(63 - its leading zeros)
    const uint64_t odd = 2 * static_cast<uint64_t>(word) + 1;
    return static_cast<float>(__builtin_clzll(odd) - 30) * kLn2Above;
}

void gumbel_noise(const NoiseKey& key, int64_t count, float* noise) {
    constexpr int64_t kBlock = 256;
    std::array<uint32_t, kBlock> words;
    for (int64_t first = 0; first < count; first += kBlock) {
        for (int64_t i = 0; i < kBlock; i += 4) {
            const PhiloxCounter four = key.words(static_cast<uint32_t>((first + i) / 4));
            std::copy(four.begin(), four.end(), words.begin() + i);
        }
        gumbel(words.data(), std::min(kBlock, count - first), noise + first);
    }
}

uint64_t derive_seed(uint64_t seed, uint64_t sample) {
    if (sample == 0) {
        return seed;
    }
    const PhiloxCounter words = NoiseKey{seed, sample, NoiseStream::seed}.words(0);
    return words[0] | static_cast<uint64_t>(words[1]) << 32;
}

}  // namespace outrider
