// Iterates over a panel of a matrix product: micro-panel by micro-panel, and some rows at a time.
#pragma once

#include "cpu/product/product_kernel.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// The product of some rows with one micro-panel of output features.
struct MicroPanelPass {
    int64_t micro_panel;
    int64_t next_micro_panel;  // micro-panel that this thread is likely to read next
    int64_t first_row;
    int64_t rows;
    const char* input;  // input of the first row
};

/// Calls body(MicroPanelPass, sums) for all rows and all micro-panels of a panel. The outer loop is over
/// rows: reading the panel again takes less time than reading many rows again, which do not fit into the L2
/// cache.  # sums: [pass.rows, kColumns], zero
template <typename Sum, int kColumns, int64_t kMostRows = RegisterBlocking::kPassRows, typename Body>
OUTRIDER_INLINE void for_micro_panel_passes(const WeightView& weight, const ProductRows& rows, int64_t panel,
                                            const Body& body) {
    static_assert(kPanelColumns % kColumns == 0, "a panel is whole micro-panels");
    constexpr int64_t kMicroPanels = kPanelColumns / kColumns;
    const int64_t micro_panels = (weight.out_features + kColumns - 1) / kColumns;
    const int64_t end = smaller((panel + 1) * kMicroPanels, micro_panels);
    alignas(kCacheLine) Sum sums[kMostRows * kColumns];
    for (int64_t row = rows.first_row; row < rows.end_row; row += kMostRows) {
        const int64_t count = smaller(kMostRows, rows.end_row - row);
        const char* input = static_cast<const char*>(rows.input) + row * rows.input_stride;
        for (int64_t micro_panel = panel * kMicroPanels; micro_panel < end; ++micro_panel) {
            const int64_t next =
                micro_panel + 1 < end ? micro_panel + 1 : (panel + rows.panels_ahead) * kMicroPanels;
            __builtin_memset(sums, 0, count * kColumns * sizeof(Sum));
            body(MicroPanelPass{micro_panel, smaller(next, micro_panels - 1), row, count, input}, sums);
        }
    }
}

/// out = sums + bias, for the columns that exist. `sums_of_row(row)(column)` returns the sums of kLanes
/// columns of the micro-panel from `column` on.
template <int kColumns, typename SumsOfRow>
OUTRIDER_INLINE void write_rows(const WeightView& weight, const ProductRows& rows, const MicroPanelPass& pass,
                                const SumsOfRow& sums_of_row) {
    const int64_t first_column = pass.micro_panel * kColumns;
    const int64_t columns = weight.out_features - first_column;
    const float* bias = rows.bias ? rows.bias + first_column : nullptr;
    for (int64_t row = 0; row < pass.rows; ++row) {
        float* out = rows.out + (pass.first_row + row) * rows.out_stride + first_column;
        const auto sums = sums_of_row(row);
        if (columns >= kColumns) {
            OUTRIDER_UNROLLED
            for (int column = 0; column < kColumns; column += kLanes) {
                const Vec sum = sums(column);
                store(out + column, bias ? sum + load(bias + column) : sum);
            }
            continue;
        }
        for (int64_t column = 0; column < columns; column += kLanes) {
            const int64_t count = columns - column;
            const Vec sum = sums(column);
            store_first(out + column, bias ? sum + load_first(bias + column, count) : sum, count);
        }
    }
}

/// The same with float32 sums.  # sums: [pass.rows, kColumns]
template <int kColumns>
inline void write_sums(const WeightView& weight, const ProductRows& rows, const MicroPanelPass& pass,
                       const float* sums) {
    write_rows<kColumns>(weight, rows, pass, [&](int64_t row) {
        return [from = sums + row * kColumns](int64_t column) { return load(from + column); };
    });
}

}  // namespace outrider::cpu::OUTRIDER_ISA
