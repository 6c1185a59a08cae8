// The bf16 matrix product on AMX tiles, whose rounding ignores MXCSR.
#pragma once

#include "cpu/product/packed_rows.h"
#include "cpu/product/panel_sums.h"
#include "cpu/product/product_kernel.h"
#include "cpu/product/tile_sums.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct Bf16Tiles {
    using Total = float;
    static constexpr int64_t kRowStride = kTileRowBytes;
    static constexpr int64_t kTileStride = kTileRows * kTileRowBytes;
    static constexpr int64_t kStepValues = kTileRowBytes / sizeof(BFloat16);

    template <int kSums, int kRows, int kWeights>
    OUTRIDER_INLINE static void multiply() {
        Tiles::multiply_bf16<kSums, kRows, kWeights>();
    }
};

/// Packed as [panel][step of K][tile of sixteen features][pair of K][feature][2]; K and the features are
/// padded with zeros.
struct AmxProduct {
    using Value = BFloat16;
    using Sums = TileSums<Bf16Tiles>;
    static constexpr int64_t kStep = Bf16Tiles::kStepValues;
    static constexpr int64_t kTileValues = kTileRows * kStep;

    static int64_t steps(int in_features) { return (in_features + kStep - 1) / kStep; }

    static size_t panel_bytes(int in_features) {
        return static_cast<size_t>(steps(in_features)) * Sums::kTileStepBytes;
    }

    static char* panel_data(const WeightView& weight, int64_t panel) {
        return static_cast<char*>(weight.data) + panel * panel_bytes(weight.in_features);
    }

    /// An output feature's pairs in the tile of its panel's first step.
    static BFloat16* row_data(const WeightView& weight, int64_t row) {
        const int64_t column = row % kPanelColumns;
        return reinterpret_cast<BFloat16*>(panel_data(weight, row / kPanelColumns)) +
               column / kLanes * kTileValues + column % kLanes * 2;
    }

    /// The offset of input k from row_data.
    static int64_t offset(int64_t k) {
        return k / kStep * (Sums::kTileStepBytes / sizeof(BFloat16)) + k % kStep / 2 * (2 * kLanes) + k % 2;
    }

    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        for_micro_panel_passes<float, kPanelColumns, Sums::kMostRows>(
            weight, rows, panel, [&](const MicroPanelPass& pass, float* sums) {
                Sums::add_panel({pass.input, rows.input_stride, panel_data(weight, pass.micro_panel),
                                 steps(weight.in_features), sums},
                                pass.rows, panel_data(weight, pass.next_micro_panel));
                write_sums<kPanelColumns>(weight, rows, pass, sums);
            });
    }

    static constexpr ProductKernel kernel() {
        using Rows = PackedRows<AmxProduct>;
        return {.panel_bytes = panel_bytes,
                .store_row = Rows::store_row,
                .load_row = Rows::load_row,
                .multiply_panel = multiply_panel,
                .multiply_registers = Sums::multiply_registers};
    }
};

using Bf16Product = AmxProduct;

}  // namespace outrider::cpu::OUTRIDER_ISA
