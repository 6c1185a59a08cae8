// The matrix product on vector units with weights that need no scale.
#pragma once

#include "cpu/elementwise/arithmetic.h"
#include "cpu/product/packed_rows.h"
#include "cpu/product/panel_sums.h"
#include "cpu/product/product_kernel.h"
#include "cpu/product/step_sums.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Packed as [micro-panel of output features][step of K][feature][4 bytes]; K and the features are padded
/// with zeros.
template <typename Dot>
struct StepProduct {
    using Value = typename Dot::Value;
    using Sums = StepSums<Dot>;
    static constexpr int kColumns = Sums::kColumns;
    static constexpr int64_t kStepValues = Sums::kStepBytes / sizeof(Value);

    static int64_t steps(int64_t in_features) { return (in_features + kStepValues - 1) / kStepValues; }

    static size_t panel_bytes(int in_features) {
        return static_cast<size_t>(steps(in_features)) * kPanelColumns * Sums::kStepBytes;
    }

    static char* micro_panel_data(const WeightView& weight, int64_t micro_panel) {
        return static_cast<char*>(weight.data) +
               micro_panel * steps(weight.in_features) * Sums::kMicroPanelStepBytes;
    }

    /// The first step of an output feature.
    static Value* row_data(const WeightView& weight, int64_t row) {
        return reinterpret_cast<Value*>(micro_panel_data(weight, row / kColumns)) +
               row % kColumns * kStepValues;
    }

    /// The offset of input k from row_data.
    static int64_t offset(int64_t k) { return k / kStepValues * (kColumns * kStepValues) + k % kStepValues; }

    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        for_micro_panel_passes<float, kColumns>(
            weight, rows, panel, [&](const MicroPanelPass& pass, float* sums) {
                Sums::add_micro_panel(
                    {pass.input, rows.input_stride, micro_panel_data(weight, pass.micro_panel),
                     steps(weight.in_features), sums},
                    pass.rows, micro_panel_data(weight, pass.next_micro_panel));
                write_sums<kColumns>(weight, rows, pass, sums);
            });
    }

    static constexpr ProductKernel kernel() {
        using Rows = PackedRows<StepProduct>;
        return {.panel_bytes = panel_bytes,
                .store_row = Rows::store_row,
                .load_row = Rows::load_row,
                .multiply_panel = multiply_panel,
                .multiply_registers = multiply_registers<Dot>};
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
