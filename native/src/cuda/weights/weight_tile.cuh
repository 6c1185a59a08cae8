// Tiles: 16 output features by 32 inputs, in the order in which a warp's lanes hold them as the left operand
// of mma_m16n8k16. A matrix is [out_features / 16][in_features / 32] tiles, zeros beyond its edges.
//
// The 16 k of an operand may be any 16 inputs, if both operands use the same. With g = lane / 4 and c = lane
// % 4, a lane has the eight neighbouring inputs 8c ... 8c + 7 of features g and g + 8: 8c ... 8c + 3 in a
// tile's first mma_m16n8k16, the others in its second. So a lane also reads eight neighbouring activations of
// a row at once.
#pragma once

#include <cstdint>

#include "cuda/primitives/instructions.cuh"
#include "cuda/values/e4m3.cuh"
#include "cuda/values/values.cuh"
#include "outrider/device/format.h"

namespace outrider::cuda {

constexpr int kTileFeatures = 16;
constexpr int kTileInputs = 32;

/// A lane's left operands in the two steps of a tile.
struct LeftOperands {
    uint32_t steps[2][4];
};

/// From four registers for each of a lane's two features, with two inputs each.
__device__ inline LeftOperands in_steps(const uint32_t (&upper)[4], const uint32_t (&lower)[4]) {
    return {{{upper[0], lower[0], upper[1], lower[1]}, {upper[2], lower[2], upper[3], lower[3]}}};
}

struct Bf16Tile {
    static constexpr int64_t kBytes = kTileFeatures * kTileInputs * 2;
    static constexpr float kLargest = 0.0f;  // no scale per feature
    static constexpr bool kHasGroupScales = false;
    static constexpr bool kIsPlain = true;  // unpacked without conversion

    struct Words {
        cuda::Words<4> upper;
        cuda::Words<4> lower;
    };

    /// Reads a lane's part of a tile in shared memory.
    __device__ static Words read(const char* tile, int lane) {
        return {read_words<4>(tile + lane * 16), read_words<4>(tile + kBytes / 2 + lane * 16)};
    }
    __device__ static LeftOperands unpack(const Words& words) {
        return in_steps(words.upper.words, words.lower.words);
    }

    /// The place of one weight: the features of a tile in order, each as lanes (g, c) hold it.
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

/// The common parts of int8 and fp8. A lane's 16 bytes are its upper feature's eight inputs, then its lower
/// one's; in every four bytes the second and the third are swapped, so that a mask selects two neighbours,
/// one in each half.
struct ByteTile {
    static constexpr int64_t kBytes = kTileFeatures * kTileInputs;
    static constexpr bool kHasGroupScales = false;
    static constexpr bool kIsPlain = false;
    using Words = cuda::Words<4>;

    /// Reads a lane's part of a tile in shared memory.
    __device__ static Words read(const char* tile, int lane) { return read_words<4>(tile + lane * 16); }
    __device__ static int64_t place(int feature, int input) {
        const int lane = feature % 8 * 4 + input / 8;
        return lane * 16 + feature / 8 * 8 + input % 8 / 4 * 4 + swapped(input % 4);
    }
    __device__ static int swapped(int byte) { return byte == 1 || byte == 2 ? 3 - byte : byte; }
};

/// Integers, exact in bf16, with a float32 scale for each feature.
struct Int8Tile : ByteTile {
    static constexpr float kLargest = 127.0f;

    /// Converts bytes 0 and 2: the lower seven bits as 128 ... 255, minus 128, or minus 256 if the sign is
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

/// e4m3, exact in bf16, with a float32 scale for each feature.
struct Fp8Tile : ByteTile {
    static constexpr float kLargest = kLargestE4m3;

    /// Converts bytes 1 and 3: exponent and fraction at bf16's positions, which scales the values by 2^-120,
    /// times 2^120.
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
