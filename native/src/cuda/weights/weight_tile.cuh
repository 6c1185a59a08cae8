// Tiles: 16 output features by 32 inputs, in the order in which a warp's lanes hold them as the left operand
// of mma_m16n8k16. A matrix is [out_features / 16][in_features / 32] tiles, zeros beyond its edges.
//
// An operand's 16 k may be any 16 inputs, if both operands have the same. With g = lane / 4 and c = lane % 4,
// a lane takes the eight neighbouring inputs 8c ... 8c + 7 of features g and g + 8: 8c ... 8c + 3 in a tile's
// first mma_m16n8k16, the others in its second. So it reads eight neighbours of a row's activations at
// once, too.
#pragma once

#include <cstdint>

#include "cuda/primitives/instructions.cuh"
#include "cuda/values/e4m3.cuh"
#include "cuda/values/values.cuh"
#include "outrider/device/format.h"

namespace outrider::cuda {

constexpr int kTileFeatures = 16;
constexpr int kTileInputs = 32;

/// A lane's left operands of a tile's two steps.
struct LeftOperands {
    uint32_t steps[2][4];
};

/// Four registers for each of a lane's two features, of two inputs each.
__device__ inline LeftOperands in_steps(const uint32_t (&upper)[4], const uint32_t (&lower)[4]) {
    return {{{upper[0], lower[0], upper[1], lower[1]}, {upper[2], lower[2], upper[3], lower[3]}}};
}

struct Bf16Tile {
    static constexpr int64_t kBytes = kTileFeatures * kTileInputs * 2;
    static constexpr float kLargest = 0.0f;  // no scale for each feature
    static constexpr bool kHasGroupScales = false;
    static constexpr bool kIsPlain = true;  // unpacked as it is

    struct Words {
        cuda::Words<4> upper;
        cuda::Words<4> lower;
    };

    /// What a lane holds of a tile in the block's memory.
    __device__ static Words read(const char* tile, int lane) {
        return {read_words<4>(tile + lane * 16), read_words<4>(tile + kBytes / 2 + lane * 16)};
    }
    __device__ static LeftOperands unpack(const Words& words) {
        return in_steps(words.upper.words, words.lower.words);
    }

    /// Where one weight is: the features of a tile in order, as the lanes g, c hold them.
    __device__ static int64_t place(int feature, int input) { return (feature * kTileInputs + input) * 2; }

    __device__ static void store(char* tile, int feature, const float (&weights)[kTileInputs], float) {
        for (int input = 0; input < kTileInputs; ++input) {
            *reinterpret_cast<uint16_t*>(tile + place(feature, input)) = bfloat16_bits(weights[input]);
        }
    }
    __device__ static float value(const char* tile, int feature, int input) {
        return bfloat16_value(*reinterpret_cast<const uint16_t*>(tile + place(feature, input)));
    }
};

/// What int8 and fp8 have in common. A lane's 16 bytes are its upper feature's eight inputs, then its lower
/// one's; of four bytes the second and the third have changed places, so that a mask finds two neighbours in
/// two halves.
struct ByteTile {
    static constexpr int64_t kBytes = kTileFeatures * kTileInputs;
    static constexpr bool kHasGroupScales = false;
    static constexpr bool kIsPlain = false;
    using Words = cuda::Words<4>;

    /// What a lane holds of a tile in the block's memory.
    __device__ static Words read(const char* tile, int lane) { return read_words<4>(tile + lane * 16); }
    __device__ static int64_t place(int feature, int input) {
        const int lane = feature % 8 * 4 + input / 8;
        return lane * 16 + feature / 8 * 8 + input % 8 / 4 * 4 + swapped(input % 4);
    }
    __device__ static int swapped(int byte) { return byte == 1 || byte == 2 ? 3 - byte : byte; }
};

/// Integers, exact in bf16; a float32 scale for each feature.
struct Int8Tile : ByteTile {
    static constexpr float kLargest = 127.0f;

    /// Bytes 0 and 2: the lower seven bits as 128 ... 255, from which 128 is taken, or 256 where the sign is
    /// set.
    __device__ static uint32_t pair(uint32_t word) {
        return multiply_add_pair(masked_beside(word, 0x007F007Fu, 0x43004300u), 0x3F803F80u,
                                 masked_beside(word, 0x00800080u, 0xC300C300u));
    }
    __device__ static LeftOperands unpack(const Words& from) {
        const uint32_t (&w)[4] = from.words;
        return in_steps({pair(w[0]), pair(w[0] >> 8), pair(w[1]), pair(w[1] >> 8)},
                        {pair(w[2]), pair(w[2] >> 8), pair(w[3]), pair(w[3] >> 8)});
    }
    __device__ static void store(char* tile, int feature, const float (&weights)[kTileInputs], float factor) {
        for (int input = 0; input < kTileInputs; ++input) {
            tile[place(feature, input)] = static_cast<char>(nearest_integer(weights[input], factor));
        }
    }
    __device__ static float value(const char* tile, int feature, int input) {
        return static_cast<float>(static_cast<int8_t>(tile[place(feature, input)]));
    }
};

/// e4m3, exact in bf16; a float32 scale for each feature.
struct Fp8Tile : ByteTile {
    static constexpr float kLargest = kLargestE4m3;

    /// Bytes 1 and 3: exponent and fraction where bf16 has them, which makes each 2^-120 of itself.
    __device__ static uint32_t pair(uint32_t word) {
        return multiply_add_pair(masked_beside(word, 0x80008000u, word >> 4 & 0x07F007F0u), 0x7B807B80u,
                                 0x80008000u);
    }
    __device__ static LeftOperands unpack(const Words& from) {
        const uint32_t (&w)[4] = from.words;
        return in_steps({pair(w[0] << 8), pair(w[0]), pair(w[1] << 8), pair(w[1])},
                        {pair(w[2] << 8), pair(w[2]), pair(w[3] << 8), pair(w[3])});
    }

    __device__ static void store(char* tile, int feature, const float (&weights)[kTileInputs], float factor) {
        for (int input = 0; input < kTileInputs; ++input) {
            tile[place(feature, input)] = static_cast<char>(nearest_e4m3(weights[input] * factor));
        }
    }
    __device__ static float value(const char* tile, int feature, int input) {
        return e4m3_value(static_cast<uint8_t>(tile[place(feature, input)]));
    }
};

}  // namespace outrider::cuda
