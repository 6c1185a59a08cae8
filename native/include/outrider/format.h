// Format: how numbers are stored in weights, activations and the KV cache.
#pragma once

#include <cstddef>

namespace outrider {

enum class Format { f32, bf16 };

/// What a weight's values look like before they are packed.
enum class SourceType { f32, f16, bf16 };

constexpr size_t size_of(Format format) {
    return format == Format::f32 ? 4 : 2;
}
constexpr size_t size_of(SourceType type) {
    return type == SourceType::f32 ? 4 : 2;
}

}  // namespace outrider
