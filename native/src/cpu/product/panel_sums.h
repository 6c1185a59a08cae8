// A panel's way through a matrix product: strip by strip, and some rows at a time.
#pragma once

#include "cpu/kernels.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

constexpr int64_t kRowsPerPass = 32;

/// Some rows' product with one strip of output features.
struct StripPass {
    int64_t strip;
    int64_t next_strip;  // the one that this thread is likely to read after it
    int64_t first_row;
    int64_t rows;
};

/// body(StripPass) for all strips of a panel, and all rows.
template <int kStrip, typename Body>
OUTRIDER_INLINE void for_strip_passes(const WeightView& weight, const ProductRows& rows, int64_t panel,
                                      const Body& body) {
    static_assert(kPanelColumns % kStrip == 0, "a panel is whole strips");
    constexpr int64_t kStrips = kPanelColumns / kStrip;
    const int64_t strips = (weight.out_features + kStrip - 1) / kStrip;
    const int64_t end = smaller((panel + 1) * kStrips, strips);
    for (int64_t strip = panel * kStrips; strip < end; ++strip) {
        const int64_t next = strip + 1 < end ? strip + 1 : (panel + rows.panels_ahead) * kStrips;
        for (int64_t row = rows.first_row; row < rows.end_row; row += kRowsPerPass) {
            body(StripPass{strip, smaller(next, strips - 1), row, smaller(kRowsPerPass, rows.end_row - row)});
        }
    }
}

/// out = sums + bias, for the columns that there are.
/// # sums: [pass.rows, kStrip]
template <int kStrip>
inline void write_sums(const WeightView& weight, const ProductRows& rows, const StripPass& pass,
                       const float* sums) {
    const int64_t first_column = pass.strip * kStrip;
    const int64_t end = smaller(first_column + kStrip, weight.out_features);
    for (int64_t row = 0; row < pass.rows; ++row) {
        float* out = rows.out + (pass.first_row + row) * weight.out_features;
        for (int64_t column = first_column; column < end; column += kLanes) {
            Vec sum = load(sums + row * kStrip + column - first_column);
            if (rows.bias) {
                sum += load_first(rows.bias + column, end - column);
            }
            store_first(out + column, sum, end - column);
        }
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
