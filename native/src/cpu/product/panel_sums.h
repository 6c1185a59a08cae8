// A panel's way through a matrix product: micro-panel by micro-panel, and some rows at a time.
#pragma once

#include "cpu/product/product_kernel.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

constexpr int64_t kRowsPerPass = 32;

/// Some rows' product with one micro-panel of output features.
struct MicroPanelPass {
    int64_t micro_panel;
    int64_t next_micro_panel;  // the one that this thread is likely to read after it
    int64_t first_row;
    int64_t rows;
};

/// body(MicroPanelPass) for all rows, and all micro-panels of a panel: reading the panel again takes less than reading
/// many rows again, which do not fit into the second-level cache.
template <int kColumns, int64_t kMostRows = kRowsPerPass, typename Body>
OUTRIDER_INLINE void for_micro_panel_passes(const WeightView& weight, const ProductRows& rows, int64_t panel,
                                            const Body& body) {
    static_assert(kPanelColumns % kColumns == 0, "a panel is whole micro-panels");
    constexpr int64_t kMicroPanels = kPanelColumns / kColumns;
    const int64_t micro_panels = (weight.out_features + kColumns - 1) / kColumns;
    const int64_t end = smaller((panel + 1) * kMicroPanels, micro_panels);
    for (int64_t row = rows.first_row; row < rows.end_row; row += kMostRows) {
        for (int64_t micro_panel = panel * kMicroPanels; micro_panel < end; ++micro_panel) {
            const int64_t next =
                micro_panel + 1 < end ? micro_panel + 1 : (panel + rows.panels_ahead) * kMicroPanels;
            body(MicroPanelPass{micro_panel, smaller(next, micro_panels - 1), row,
                                smaller(kMostRows, rows.end_row - row)});
        }
    }
}

/// out = sums + bias, for the columns that there are.
/// # sums: [pass.rows, kColumns]
template <int kColumns>
inline void write_sums(const WeightView& weight, const ProductRows& rows, const MicroPanelPass& pass,
                       const float* sums) {
    const int64_t first_column = pass.micro_panel * kColumns;
    const int64_t end = smaller(first_column + kColumns, weight.out_features);
    for (int64_t row = 0; row < pass.rows; ++row) {
        float* out = rows.out + (pass.first_row + row) * rows.out_stride;
        for (int64_t column = first_column; column < end; column += kLanes) {
            Vec sum = load(sums + row * kColumns + column - first_column);
            if (rows.bias) {
                sum += load_first(rows.bias + column, end - column);
            }
            store_first(out + column, sum, end - column);
        }
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
