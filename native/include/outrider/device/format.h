// Formats: how numbers are stored in activations, weights and the KV cache.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

/// Format of activations, and of whatever needs no scale.
enum class Format { f32, bf16 };

/// int8, int4 and fp8 (e4m3) have a float32 scale for each output feature. A CPU's int4 has besides, for each
/// kInt4Group inputs of one, a step and an offset in units of it, a byte each; a GPU's has a bf16 scale for
/// each such group, and no other.
enum class WeightFormat { f32, bf16, int8, int4, fp8 };

/// int8 and fp8 (e4m3) have a float32 scale for each token and head.
enum class KvFormat { f32, bf16, int8, fp8 };

constexpr bool has_scales(KvFormat format) {
    return format == KvFormat::int8 || format == KvFormat::fp8;
}

/// What a weight's values look like before they are packed.
enum class SourceType { f32, f16, bf16 };

constexpr int kInt4Group = 32;

constexpr size_t size_of(Format format) {
    return format == Format::f32 ? 4 : 2;
}
constexpr size_t size_of(SourceType type) {
    return type == SourceType::f32 ? 4 : 2;
}

/// Bytes of a matrix and its scales, without padding; of int4 as a CPU holds it.
constexpr int64_t weight_bytes(WeightFormat format, int64_t out_features, int64_t in_features) {
    const int64_t groups = (in_features + kInt4Group - 1) / kInt4Group;
    switch (format) {
        case WeightFormat::f32:
            return out_features * in_features * 4;
        case WeightFormat::bf16:
            return out_features * in_features * 2;
        case WeightFormat::int8:
        case WeightFormat::fp8:
            return out_features * (in_features + 4);
        default:
            return out_features * (groups * (kInt4Group / 2 + 2) + 4);
    }
}

/// Bytes of one head's key or value.
constexpr int64_t kv_bytes(KvFormat format, int64_t head_dim) {
    return has_scales(format) ? head_dim + 4 : head_dim * (format == KvFormat::f32 ? 4 : 2);
}

}  // namespace outrider
