// e4m3, the eight-bit format with four bits of exponent. (Micikevicius et al., arXiv 2209.05433, table 1.)
#pragma once

#include <cstdint>

#include "cuda/values/values.cuh"

namespace outrider::cuda {

constexpr float kLargestE4m3 = 448.0f;

/// The nearest code, ties to even; `value` must be at most a little above 448.
__device__ inline uint8_t nearest_e4m3(float value) {
    const auto bits = bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    const uint32_t normal = ((magnitude + 0x7FFFF + (magnitude >> 20 & 1)) >> 20) - ((127 - 7) << 3);
    const auto subnormal = static_cast<uint32_t>(nearest_integer(bit_cast<float>(magnitude), 512.0f));
    const uint32_t code = magnitude < (127u - 6) << 23 ? subnormal : normal;
    return static_cast<uint8_t>(bits >> 24 & 0x80) | static_cast<uint8_t>(code < 0x7E ? code : 0x7E);
}

/// The value of a finite code.
__device__ inline float e4m3_value(uint8_t code) {
    // Places exponent and fraction at float32's positions, which scales the value by 2^-120.
    const uint32_t bits = static_cast<uint32_t>(code & 0x80) << 24 | static_cast<uint32_t>(code & 0x7F) << 20;
    return bit_cast<float>(bits) * 1.329227995784916e36f;  // 2^120
}

}  // namespace outrider::cuda
