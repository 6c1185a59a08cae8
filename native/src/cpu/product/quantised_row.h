// Rows of activations in int8: the input of products with int8, int4 and grouped weights.
#pragma once

#include "cpu/product/product_kernel.h"
#include "cpu/vec/vec.h"
#include "outrider/device/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// The scale of a row: each value stands for scale * value.
struct RowScale {
    float scale;
    int32_t correction;  // to its sums of products, for weights that are stored with an offset
};

/// The values, padded with zeros to kActivationAlignment, followed by their RowScale.
struct QuantisedRow {
    static int64_t padded(int64_t width) {
        return (width + kActivationAlignment - 1) / kActivationAlignment * kActivationAlignment;
    }
    static size_t bytes(int64_t width) { return padded(width) + sizeof(RowScale); }
    static const RowScale* scale(const void* row, int64_t width) {
        return reinterpret_cast<const RowScale*>(static_cast<const char*>(row) + padded(width));
    }
};

/// 1.5 * 2^23: adding it rounds to the nearest integer, ties to even, and leaves the integer in the low bits.
OUTRIDER_INLINE Vec rounding_shifter() {
    return splat(12582912.0f);
}
OUTRIDER_INLINE IntVec to_nearest(Vec values, float factor) {
    const Vec shifted = multiply_add(values, splat(factor), rounding_shifter());
    return bit_cast<IntVec>(shifted) - bit_cast<IntVec>(rounding_shifter());
}

/// The sum of the first two of each four values, and the sum of the last two.
struct HalfSums {
    int32_t first;
    int32_t last;

    /// # lanes: sums of the values whose places differ by multiples of kLanes
    OUTRIDER_INLINE static HalfSums of(IntVec lanes) {
        for (int width = kLanes / 2; width > 2; width /= 2) {
            lanes += rotated(lanes, width);
        }
        lanes += rotated(lanes, 1);
        return {lanes[0], lanes[2]};
    }
    OUTRIDER_INLINE int32_t total() const { return first + last; }
};

/// The scale and the sums of some int8 values; each stands for scale * value.
struct QuantisedValues {
    float scale;
    HalfSums sums;
};

/// Quantises symmetrically; the largest magnitude becomes 127. If a value is not finite, the scale is NaN, so
/// that results computed from it are NaN too.
OUTRIDER_INLINE QuantisedValues quantise(const float* values, int64_t count, int8_t* to) {
    Vec largest = {};
    IntVec finite = IntVec{} == 0;
    for (int64_t k = 0; k < count; k += kLanes) {
        const Vec magnitude = absolute(load(values + k));
        largest = maximum(magnitude, largest);
        finite &= magnitude < __builtin_inff();
    }
    const float limit = max_lanes(largest);
    const bool is_finite = max_lanes(choose(finite, Vec{}, splat(1.0f))) == 0.0f;
    constexpr float kSmallest = 1e-30f;  // below it 127 / limit could be infinite
    const float factor = is_finite && limit > kSmallest ? 127.0f / limit : 0.0f;
    IntVec sum = {};
    for (int64_t k = 0; k < count; k += kLanes) {
        const IntVec rounded = to_nearest(is_finite ? load(values + k) : Vec{}, factor);
        sum += rounded;
        const SmallVec bytes = __builtin_convertvector(rounded, SmallVec);
        __builtin_memcpy(to + k, &bytes, sizeof(bytes));
    }
    const float scale = factor > 0.0f ? limit / 127.0f : 0.0f;
    return {is_finite ? scale : __builtin_nanf(""), HalfSums::of(sum)};
}

/// `offset` is the offset that the weights are stored with.
/// # values: [width], zero from there to the next multiple of kActivationAlignment
inline void quantise_row(const float* values, int64_t width, int offset, void* to) {
    auto* bytes = static_cast<int8_t*>(to);
    const int64_t padded = QuantisedRow::padded(width);
    const QuantisedValues all = quantise(values, padded, bytes);
    store_as(bytes + padded, RowScale{all.scale, -offset * all.sums.total()});
}

/// The terms of one group of a row's values.
struct GroupTerms {
    float scale;    // each value stands for scale * value
    float sum;      // sum of scale * value over the group
    int32_t start;  // start of a sum of products with numbers as they are stored
};

/// The values, padded with zeros to kActivationAlignment, followed by the GroupTerms of each kSize of them.
template <int kSize>
struct GroupedRow {
    static int64_t padded(int64_t width) { return QuantisedRow::padded(width); }
    static size_t bytes(int64_t width) { return padded(width) + width / kSize * sizeof(GroupTerms); }

    /// Prepares a row for sums of type Sum with numbers that are stored with `zero` added.
    /// # values: [width], whole groups
    template <typename Sum>
    static void prepare(const float* values, int64_t width, int zero, void* to) {
        auto* bytes = static_cast<int8_t*>(to);
        __builtin_memset(bytes, 0, padded(width));
        for (int64_t group = 0; group < width / kSize; ++group) {
            const QuantisedValues all = quantise(values + group * kSize, kSize, bytes + group * kSize);
            const GroupTerms terms{all.scale, all.scale * static_cast<float>(all.sums.total()),
                                   Sum::start_of(-zero * all.sums.first, -zero * all.sums.last)};
            store_as(bytes + padded(width) + group * sizeof(GroupTerms), terms);
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
