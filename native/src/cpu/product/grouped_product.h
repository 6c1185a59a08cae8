// The matrix product with grouped weights: exact integer sums within each group, and a float32 sum of the
// groups along K, in order, with each output feature in a lane of its own.
#pragma once

#include "cpu/elementwise/arithmetic.h"
#include "cpu/product/panel_sums.h"
#include "cpu/product/product_kernel.h"
#include "cpu/product/quantised_row.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Packed as [micro-panel of output features]; the features are padded with zeros.
template <typename MicroPanel>
struct GroupedProduct {
    static constexpr int kColumns = MicroPanel::kColumns;

    static size_t panel_bytes(int in_features) {
        return kPanelColumns / kColumns * MicroPanel::bytes(in_features);
    }

    static char* micro_panel_data(const WeightView& weight, int64_t micro_panel) {
        return static_cast<char*>(weight.data) + micro_panel * MicroPanel::bytes(weight.in_features);
    }

    static void store_groups(const WeightView& weight, int64_t row, const GroupedRows& values) {
        MicroPanel::store_row(micro_panel_data(weight, row / kColumns), row % kColumns, weight.in_features,
                              values);
    }

    static void load_row(const WeightView& weight, int64_t row, float scale, float* out) {
        MicroPanel::load_row(micro_panel_data(weight, row / kColumns), row % kColumns, weight.in_features,
                             scale, out);
    }

    template <bool kIsForMany>
    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        for_micro_panel_passes<float, kColumns, MicroPanel::kMostRows>(
            weight, rows, panel, [&](const MicroPanelPass& pass, float* sums) {
                MicroPanel::template add<kIsForMany>(
                    {pass.input, pass.input + QuantisedRow::padded(weight.in_features), rows.input_stride,
                     micro_panel_data(weight, pass.micro_panel),
                     weight.in_features / MicroPanel::kGroups.block, sums},
                    pass.rows, micro_panel_data(weight, pass.next_micro_panel));
                write_sums<kColumns>(weight, rows, pass, sums);
            });
    }

    static constexpr ProductKernel kernel() {
        constexpr bool kHasTwoWays = MicroPanel::kManyRows < kNever;
        return {.panel_bytes = panel_bytes,
                .store_groups = store_groups,
                .load_row = load_row,
                .input_bytes = MicroPanel::input_bytes,
                .prepare_row = MicroPanel::prepare_row,
                .multiply_panel = multiply_panel<false>,
                .multiply_panel_of_many = kHasTwoWays ? multiply_panel<kHasTwoWays> : nullptr,
                .many_rows = MicroPanel::kManyRows,
                .multiply_registers = multiply_registers<typename MicroPanel::Dot>};
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
