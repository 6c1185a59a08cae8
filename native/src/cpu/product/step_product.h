// The matrix product on vector units where weights need no scale.
#pragma once

#include "cpu/kernels.h"
#include "cpu/product/packed_rows.h"
#include "cpu/product/panel_sums.h"
#include "cpu/product/step_sums.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Packed as [strip of output features][step of K][feature][4 bytes], K and features padded with zeros.
template <typename Dot>
struct StepProduct {
    using Value = typename Dot::Value;
    using Sums = StepSums<Dot>;
    static constexpr int kStrip = Sums::kStrip;
    static constexpr int64_t kStepValues = Sums::kStepBytes / sizeof(Value);

    static int64_t steps(int64_t in_features) { return (in_features + kStepValues - 1) / kStepValues; }

    static size_t panel_bytes(int in_features) {
        return static_cast<size_t>(steps(in_features)) * kPanelColumns * Sums::kStepBytes;
    }

    static char* strip_data(const WeightView& weight, int64_t strip) {
        return static_cast<char*>(weight.data) + strip * steps(weight.in_features) * Sums::kStripStepBytes;
    }

    /// Where an output feature's first step is.
    static Value* row_data(const WeightView& weight, int64_t row) {
        return reinterpret_cast<Value*>(strip_data(weight, row / kStrip)) + row % kStrip * kStepValues;
    }

    /// Offset of one k from row_data.
    static int64_t offset(int64_t k) { return k / kStepValues * (kStrip * kStepValues) + k % kStepValues; }

    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        for_strip_passes<kStrip>(weight, rows, panel, [&](const StripPass& pass) {
            alignas(kCacheLine) float sums[kRowsPerPass * kStrip] = {};
            Sums::add_strip(
                {static_cast<const char*>(rows.input) + pass.first_row * rows.input_stride, rows.input_stride,
                 strip_data(weight, pass.strip), steps(weight.in_features), sums},
                pass.rows, strip_data(weight, pass.next_strip));
            write_sums<kStrip>(weight, rows, pass, sums);
        });
    }

    static constexpr ProductKernel kernel() {
        using Rows = PackedRows<StepProduct>;
        return {panel_bytes, Rows::store_row, Rows::load_row, nullptr, nullptr, multiply_panel};
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
