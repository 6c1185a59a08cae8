// Formats: how numbers are stored in activations, weights and the KV cache.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

/// The format of activations, and of other values without scales.
enum class Format { f32, bf16 };

/// int8, int4 and fp8 (e4m3) have a float32 scale for each output feature. On a CPU, int4 also has a step and
/// an offset, in units of that scale and a byte each, for each kInt4Group inputs of an output feature; on a
/// GPU, int4 instead has a bf16 scale for each such group, and no scale of the output feature.
enum class WeightFormat { f32, bf16, int8, int4, fp8 };

/// int8 and fp8 (e4m3) have a float32 scale for each token and head.
enum class KvFormat { f32, bf16, int8, fp8 };

constexpr bool has_scales(KvFormat format) {
    return format == KvFormat::int8 || format == KvFormat::fp8;
}

/// The format of cached inputs of short convolutions. They are few, and errors in them are not averaged out
/// by a softmax, so they are never rounded below bf16.
constexpr Format conv_format(KvFormat format) {
    return format == KvFormat::f32 ? Format::f32 : Format::bf16;
}

/// The element type of a weight before packing.
enum class SourceType { f32, f16, bf16 };

constexpr int kInt4Group = 32;

constexpr size_t size_of(Format format) {
    return format == Format::f32 ? 4 : 2;
}
constexpr size_t size_of(SourceType type) {
    return type == SourceType::f32 ? 4 : 2;
}

/// Describes how the integers of a quantised weight share scales: each `size` neighbouring inputs of an
/// output feature form a group, with a scale and possibly an offset of its own.
struct Grouping {
    int size = 0;   // 0: the weight is given as floats, which packing quantises
    int block = 0;  // inputs whose scales are multiples of one unit; `size` if each group has its own
    bool has_offsets = false;

    bool operator==(const Grouping&) const = default;
    constexpr bool has_steps() const { return block > size; }
};

/// The storage kind of a weight. A grouped one is int8 or int4.
struct WeightKind {
    WeightFormat format;
    Grouping groups = {};

    bool operator==(const WeightKind&) const = default;
};

/// The range of a grouped weight's numbers. Only Q6_K has int8 numbers in groups of 16.
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

/// Rows of a grouped weight. A value is scale * number + offset. The scale of a group is the float16 of its
/// block, times the group's step if there are steps; the offset likewise.
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

/// The bytes of a matrix and its scales, without padding; int4 is counted in the CPU's layout.
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

/// The bytes of one head's key or value for one token.
constexpr int64_t kv_bytes(KvFormat format, int64_t head_dim) {
    return has_scales(format) ? head_dim + 4 : head_dim * (format == KvFormat::f32 ? 4 : 2);
}

}  // namespace outrider
