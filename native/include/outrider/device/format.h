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

/// Of the inputs of short convolutions in a cache: they are few, and summed up without a softmax's mercy, so
/// that they are rounded to no less than bf16.
constexpr Format conv_format(KvFormat format) {
    return format == KvFormat::f32 ? Format::f32 : Format::bf16;
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

/// How the integers of a weight share their scales, where it is given as integers: `size` neighbouring inputs
/// of an output feature are a group, with a scale and maybe an offset of its own.
struct Grouping {
    int size = 0;   // 0: the weight is given as values, and packing rounds it to integers
    int block = 0;  // inputs whose scales are steps of one unit; a group where each has a unit of its own
    bool has_offsets = false;

    bool operator==(const Grouping&) const = default;
    constexpr bool has_steps() const { return block > size; }
};

/// What a weight is held as. A grouped one is int8 or int4.
struct WeightKind {
    WeightFormat format;
    Grouping groups = {};

    bool operator==(const WeightKind&) const = default;
};

/// The least and the most that a number of a grouped weight can be. Only Q6_K has bytes in groups of 16.
struct StoredRange {
    int least;
    int most;
};
constexpr StoredRange stored_range(const WeightKind& kind) {
    if (kind.format == WeightFormat::int8) {
        return kind.groups.size == 16 ? StoredRange{-32, 31} : StoredRange{-128, 127};
    }
    return kind.groups.has_offsets ? StoredRange{0, 15} : StoredRange{-8, 7};
}

/// Rows of a grouped weight. A value is scale * number + offset, where the scale is its group's, the float16
/// of its block or that times the step of the group, and the offset likewise.
struct GroupedRows {
    const int8_t* numbers = nullptr;       // [rows, in_features]
    const uint16_t* scales = nullptr;      // [rows, in_features / block], float16
    const uint16_t* offsets = nullptr;     // likewise, or null
    const int8_t* steps = nullptr;         // [rows, in_features / size], or null
    const int8_t* offset_steps = nullptr;  // likewise, or null

    GroupedRows from(int64_t row, int64_t in_features, const Grouping& groups) const {
        const auto moved = [&](auto* values, int64_t inputs) {
            return values ? values + row * (in_features / inputs) : nullptr;
        };
        return {moved(numbers, 1), moved(scales, groups.block), moved(offsets, groups.block),
                moved(steps, groups.size), moved(offset_steps, groups.size)};
    }
};

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

constexpr int64_t weight_bytes(const WeightKind& kind, int64_t out_features, int64_t in_features) {
    const Grouping& groups = kind.groups;
    if (groups.size == 0) {
        return weight_bytes(kind.format, out_features, in_features);
    }
    const int64_t numbers = kind.format == WeightFormat::int8 ? in_features : in_features / 2;
    const int64_t scales =
        in_features / groups.block * 2 + (groups.has_steps() ? in_features / groups.size : 0);
    return out_features * (numbers + scales * (groups.has_offsets ? 2 : 1));
}

/// Bytes of one head's key or value.
constexpr int64_t kv_bytes(KvFormat format, int64_t head_dim) {
    return has_scales(format) ? head_dim + 4 : head_dim * (format == KvFormat::f32 ? 4 : 2);
}

}  // namespace outrider
