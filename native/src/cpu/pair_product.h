// The bf16 matrix product on AVX-512-BF16, whose instruction adds the products of one pair of K to each lane
// and rounds without regard to MXCSR.
#pragma once

#include "cpu/kernels.h"
#include "cpu/packed_rows.h"
#include "cpu/panel_sums.h"
#include "cpu/step_sums.h"
#include "cpu/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct PairDot {
    using Sum = Vec;
    using Total = float;

    OUTRIDER_INLINE static Vec add(Vec sum, ByteVec weights, int32_t values) {
        return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(values), (__m512bh)weights);
    }
};

/// Packed as [panel][pair of K][feature][2], K and features padded with zeros.
struct PairProduct {
    using Value = BFloat16;
    using Sums = StepSums<PairDot>;
    static constexpr int64_t kRowsPerPass = 16;
    static_assert(Sums::kStrip == kPanelColumns, "a panel is one strip");

    static int64_t pairs(int in_features) { return (in_features + 1) / 2; }

    static size_t panel_bytes(int in_features) {
        return static_cast<size_t>(pairs(in_features)) * Sums::kStripStepBytes;
    }

    static char* panel_data(const WeightView& weight, int64_t panel) {
        return static_cast<char*>(weight.data) + panel * panel_bytes(weight.in_features);
    }

    /// Where an output feature's first pair is.
    static BFloat16* row_data(const WeightView& weight, int64_t row) {
        return reinterpret_cast<BFloat16*>(panel_data(weight, row / kPanelColumns)) + row % kPanelColumns * 2;
    }

    /// Offset of one k from row_data.
    static int64_t offset(int64_t k) { return k / 2 * (2 * kPanelColumns) + k % 2; }

    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        for (int64_t first = rows.first_row; first < rows.end_row; first += kRowsPerPass) {
            const int64_t count = smaller(kRowsPerPass, rows.end_row - first);
            float sums[kRowsPerPass * kPanelColumns] = {};
            Sums::add_strip({static_cast<const char*>(rows.input) + first * rows.input_stride,
                             rows.input_stride, panel_data(weight, panel), pairs(weight.in_features), sums},
                            count);
            write_sums<kPanelColumns>(weight, rows, panel * kPanelColumns, first, count, sums);
        }
    }

    static constexpr ProductKernel kernel() {
        using Rows = PackedRows<PairProduct>;
        return {panel_bytes, Rows::store_row, Rows::load_row, nullptr, nullptr, multiply_panel};
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
