// The sampling noise: one Gumbel variate for each (seed, position, stream, token id).
//
// Layout, noise version 1 (any change to it, or to one bit of `gumbel`, is a new version):
//   key      seed mod 2^32, seed / 2^32
//   counter  token id / 4, position mod 2^32, position / 2^32, stream
//   word     token id mod 4 of the four that one call of Philox4x32-10 returns
// `position` is the index, in prompt + generated, of the token being drawn: the length of the history before
// it. tests/native/sampling/test_noise.py holds the known answers.
#pragma once

#include <cstdint>

#include "outrider/device/host_device.h"
#include "outrider/sampling/philox.h"

namespace outrider {

constexpr int kNoiseVersion = 1;

/// The counter streams: each kind of random choice has its own, so that none disturbs another.
enum class NoiseStream : uint32_t {
    token = 0,  // the next token
    seed = 1,   // seeds derived for further samples of one prompt
    xtc = 2,    // whether top choices are excluded
};

/// Bounds on the noise: word 0 gives the greatest value, 33 log 2 = 22.874; word 2^32 - 1 the least, -3.130.
constexpr float kMaxNoise = 22.875f;
constexpr float kMinNoise = -3.131f;

/// The Gumbel noise of a random word x: -log(-log1p(-w)) with w = (x + 1/2) / 2^32, computed in double
/// precision and rounded to float. It falls as x grows and is finite for every x.
float gumbel(uint32_t word);

/// The noise of an array of words, eight at a time.  # words, noise: [count]
void gumbel(const uint32_t* words, int64_t count, float* noise);

/// An upper bound on gumbel(word), computed without logarithms: -log(w) bounds the noise from above since
/// -log1p(-w) >= w, and the leading zeros of the word bound -log(w).
float gumbel_bound(uint32_t word);

/// Maps a random word to a number in (0, 1).
OUTRIDER_HOST_DEVICE inline double uniform_of(uint32_t word) {
    return (static_cast<double>(word) + 0.5) * 0x1p-32;
}

/// The key of one draw's noise.
struct NoiseKey {
    uint64_t seed;
    uint64_t position;
    NoiseStream stream;

    /// The words of token ids 4 * group ... 4 * group + 3.
    OUTRIDER_HOST_DEVICE PhiloxCounter words(uint32_t group) const {
        return philox4x32({group, static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                           static_cast<uint32_t>(stream)},
                          {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    }
};

/// The noise of token ids 0 ... count-1.  # noise: [count]
void gumbel_noise(const NoiseKey& key, int64_t count, float* noise);

/// The seed of the n-th sample of one prompt. Sample 0 keeps the seed itself.
uint64_t derive_seed(uint64_t seed, uint64_t sample);

}  // namespace outrider
