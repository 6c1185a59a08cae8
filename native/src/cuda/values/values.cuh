// Reading and writing single values in a storage format.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "outrider/device/format.h"

namespace outrider::cuda {

template <typename To, typename From>
__device__ inline To bit_cast(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

__device__ inline float bfloat16_value(uint16_t bits) {
    return bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

__device__ inline float half_value(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    const uint32_t exponent = bits >> 10 & 31;
    const uint32_t fraction = bits & 0x3FF;
    if (exponent == 0) {
        const float magnitude = static_cast<float>(fraction) * 5.9604644775390625e-8f;  // 2^-24
        return sign ? -magnitude : magnitude;
    }
    return bit_cast<float>(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

__device__ inline float load_source(const void* values, SourceType type, int64_t index) {
    if (type == SourceType::f32) {
        return static_cast<const float*>(values)[index];
    }
    const uint16_t bits = static_cast<const uint16_t*>(values)[index];
    return type == SourceType::f16 ? half_value(bits) : bfloat16_value(bits);
}

__device__ inline float minus_infinity() {
    return bit_cast<float>(0xFF800000u);
}

__device__ inline float load(const void* values, Format format, int64_t index) {
    if (format == Format::f32) {
        return static_cast<const float*>(values)[index];
    }
    return bfloat16_value(static_cast<const uint16_t*>(values)[index]);
}

/// The nearest integer to value * factor, which must be below 2^22.
__device__ inline int32_t nearest_integer(float value, float factor) {
    const float shifter = 12582912.0f;  // adding 1.5 * 2^23 rounds to the nearest integer
    return bit_cast<int32_t>(fmaf(value, factor, shifter)) - bit_cast<int32_t>(shifter);
}

/// The upper half of a float32, rounded to nearest even; NaN stays NaN.
__device__ inline uint16_t bfloat16_bits(float value) {
    const auto bits = bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40;
    return static_cast<uint16_t>(value == value ? rounded : quiet_nan);
}

__device__ inline void store(void* values, Format format, int64_t index, float value) {
    if (format == Format::f32) {
        static_cast<float*>(values)[index] = value;
    } else {
        static_cast<uint16_t*>(values)[index] = bfloat16_bits(value);
    }
}

}  // namespace outrider::cuda
