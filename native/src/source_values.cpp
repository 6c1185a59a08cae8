#include "source_values.h"

#include <cmath>
#include <cstring>

namespace outrider {
namespace {

float from_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

float from_half(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    const uint32_t exponent = (bits >> 10) & 31;
    const uint32_t fraction = bits & 0x3FF;
    if (exponent == 0) {
        const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
        return sign ? -magnitude : magnitude;
    }
    return from_bits(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

}  // namespace

std::vector<float> to_float32(const void* values, SourceType type, int64_t first, int64_t count) {
    std::vector<float> result(count);
    const char* bytes = static_cast<const char*>(values) + first * size_of(type);
    if (type == SourceType::f32) {
        std::memcpy(result.data(), bytes, count * sizeof(float));
        return result;
    }
    const auto widen = [&](const auto& from) {
        for (int64_t index = 0; index < count; ++index) {
            uint16_t bits;
            std::memcpy(&bits, bytes + index * sizeof(bits), sizeof(bits));
            result[index] = from(bits);
        }
    };
    if (type == SourceType::f16) {
        widen(from_half);
    } else {
        widen([](uint16_t bits) { return from_bits(static_cast<uint32_t>(bits) << 16); });
    }
    return result;
}

}  // namespace outrider
