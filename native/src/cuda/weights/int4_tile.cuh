// Int4Tile: four-bit weights; the 32 inputs of a tile are one group, with a bf16 scale for each feature.
#pragma once

#include "cuda/weights/weight_tile.cuh"

namespace outrider::cuda {

/// Eight bytes for each lane, then [8][2] scales, those of features g and g + 8. A lane's first four bytes
/// are its upper feature's eight inputs: inputs 2 j and 2 j + 1, with 8 added, begin at bits 4 j and 16 + 4
/// j.
struct Int4Tile {
    static_assert(kTileInputs == kInt4Group, "a tile is a group");
    static constexpr int64_t kCodeBytes = kTileFeatures * kTileInputs / 2;
    static constexpr int64_t kBytes = kCodeBytes + kTileFeatures * 2;
    static constexpr float kLargest = 0.0f;
    static constexpr bool kHasGroupScales = true;
    static constexpr bool kIsPlain = false;
    static constexpr int kOffset = 8;

    struct Words {
        cuda::Words<2> codes;
        cuda::Words<1> scales;
    };

    /// Reads a lane's part of a tile in shared memory.
    __device__ static Words read(const char* tile, int lane) {
        return {read_words<2>(tile + lane * 8), read_words<1>(tile + kCodeBytes + lane / 4 * 4)};
    }
    /// Two inputs: 128 ... 143 minus 136.
    __device__ static uint32_t pair(uint32_t word) {
        return multiply_add_pair(masked_beside(word, 0x000F000Fu, 0x43004300u), 0x3F803F80u, 0xC308C308u);
    }
    __device__ static LeftOperands unpack(const Words& from) {
        const uint32_t upper = from.codes.words[0];
        const uint32_t lower = from.codes.words[1];
        return in_steps({pair(upper), pair(upper >> 4), pair(upper >> 8), pair(upper >> 12)},
                        {pair(lower), pair(lower >> 4), pair(lower >> 8), pair(lower >> 12)});
    }
    __device__ static float upper_scale(const Words& words) {
        return bfloat16_value(static_cast<uint16_t>(words.scales.words[0] & 0xFFFF));
    }
    __device__ static float lower_scale(const Words& words) {
        return bfloat16_value(static_cast<uint16_t>(words.scales.words[0] >> 16));
    }

    /// The place of the four bytes of eight inputs.
    __device__ static int64_t word_place(int feature, int input) {
        return (feature % 8 * 4 + input / 8) * 8 + feature / 8 * 4;
    }
    __device__ static int shift(int input) { return input % 8 / 2 * 4 + input % 2 * 16; }
    __device__ static int64_t scale_place(int feature) {
        return kCodeBytes + feature % 8 * 4 + feature / 8 * 2;
    }

    __device__ static void store(char* tile, int feature, const float (&weights)[kTileInputs], float) {
        const uint16_t scale = bfloat16_bits(best_scale(weights));
        const float unit = bfloat16_value(scale);
        *reinterpret_cast<uint16_t*>(tile + scale_place(feature)) = scale;
        for (int first = 0; first < kTileInputs; first += 8) {
            uint32_t word = 0;
            for (int input = first; input < first + 8; ++input) {
                const int32_t code = rounded(weights[input], unit != 0.0f ? 1.0f / unit : 0.0f) + kOffset;
                word |= static_cast<uint32_t>(code) << shift(input);
            }
            *reinterpret_cast<uint32_t*>(tile + word_place(feature, first)) = word;
        }
    }
    __device__ static float value(const char* tile, int feature, int input) {
        const auto word = *reinterpret_cast<const uint32_t*>(tile + word_place(feature, input));
        const auto code = static_cast<int32_t>(word >> shift(input) & 15) - kOffset;
        return static_cast<float>(code) *
               bfloat16_value(*reinterpret_cast<const uint16_t*>(tile + scale_place(feature)));
    }

    __device__ static int32_t rounded(float weight, float factor) {
        const int32_t number = nearest_integer(weight, factor);
        return number < -8 ? -8 : (number > 7 ? 7 : number);
    }

    /// The scale, near the plain one, that leaves the least squared error; for the numbers that some scale
    /// rounds to, the best scale is found by least squares. The weight of the largest magnitude gets -8,
    /// which has no positive counterpart. NaN if a weight is not finite.
    __device__ static float best_scale(const float (&weights)[kTileInputs]) {
        float largest = 0.0f;
        float nothing = 0.0f;
        for (float weight : weights) {
            largest = fabsf(weight) > fabsf(largest) ? weight : largest;
            nothing += weight * 0.0f;
        }
        if (largest == 0.0f) {
            return nothing;
        }
        float best_gain = 0.0f;
        float best = largest / -8.0f;
        for (int trial = -4; trial <= 4; ++trial) {
            const float factor = (-8.0f + 0.2f * static_cast<float>(trial)) / largest;
            float product = 0.0f;
            float square = 0.0f;
            for (float weight : weights) {
                const auto number = static_cast<float>(rounded(weight, factor));
                product = fmaf(weight, number, product);
                square = fmaf(number, number, square);
            }
            if (square > 0.0f && product * product > best_gain * square) {
                best_gain = product * product / square;
                best = product / square;
            }
        }
        return best + nothing;
    }
};

}  // namespace outrider::cuda
