// PackedRows: stores and loads one output feature of a packed weight without scales.
#pragma once

#include "cpu/product/product_kernel.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// `Layout` defines the places of values of type Value: input k of a row is at row_data(weight, row) +
/// offset(k).
template <typename Layout>
struct PackedRows {
    using Value = typename Layout::Value;

    static void store_row(const WeightView& weight, int64_t row, const float* values) {
        Value* to = Layout::row_data(weight, row);
        for (int64_t k = 0; k < weight.in_features; k += kLanes) {
            const int64_t count = smaller(kLanes, weight.in_features - k);
            Value rounded[kLanes];
            store(rounded, load_first(values + k, count));
            for (int64_t lane = 0; lane < count; ++lane) {
                to[Layout::offset(k + lane)] = rounded[lane];
            }
        }
    }

    /// out = scale * the row.
    static void load_row(const WeightView& weight, int64_t row, float scale, float* out) {
        const Value* from = Layout::row_data(weight, row);
        for (int64_t k = 0; k < weight.in_features; ++k) {
            out[k] = to_float(from[Layout::offset(k)]) * scale;
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
