// The matrix product with integer weights: exact integer sums, multiplied by a scale of the output feature
// and a scale of the row.
#pragma once

#include "cpu/product/panel_sums.h"
#include "cpu/product/product_kernel.h"
#include "cpu/product/quantised_row.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// The product of some rows with one micro-panel.
struct MicroPanelRows {
    const char* micro_panel;
    const char* next_micro_panel;
    const char* input;  // [rows, input_stride]
    int64_t input_stride;
    int64_t in_features;
    int64_t rows;
    int32_t* sums;  // [rows, kColumns]
};

/// Packed as [panel] of [micro-panel of output features] and the features' scales in float32. `MicroPanel`
/// defines the integers of a micro-panel of kColumns features, and the input of its product:
///   kMostRows                                       the most rows that it multiplies at a time
///   kManyRows                                       fewest rows for which add<true> is usually faster, or kNever
///   multiply_registers(rounds)                      its products, of numbers in registers
///   kLargest                                        the integer of the largest weight
///   bytes(in_features)                              the bytes of one micro-panel
///   store_row(micro_panel, column, values, width, factor)   rounds values * factor
///   number(micro_panel, column, k)                        a stored integer
///   input_bytes(in_features), prepare_row(values, in_features, to)
///   add<is for many rows>(MicroPanelRows)                adds the products to the sums
template <typename MicroPanel>
struct IntegerProduct {
    static constexpr int kColumns = MicroPanel::kColumns;
    static constexpr int64_t kMicroPanels = kPanelColumns / kColumns;

    static size_t panel_bytes(int in_features) {
        return kMicroPanels * MicroPanel::bytes(in_features) + kPanelColumns * sizeof(float);
    }

    static char* panel_data(const WeightView& weight, int64_t panel) {
        return static_cast<char*>(weight.data) + panel * panel_bytes(weight.in_features);
    }
    static char* micro_panel_data(const WeightView& weight, int64_t micro_panel) {
        return panel_data(weight, micro_panel / kMicroPanels) +
               micro_panel % kMicroPanels * MicroPanel::bytes(weight.in_features);
    }
    /// The scales of the output features from `row` to the end of its panel.
    static float* scales(const WeightView& weight, int64_t row) {
        char* after =
            panel_data(weight, row / kPanelColumns) + kMicroPanels * MicroPanel::bytes(weight.in_features);
        return reinterpret_cast<float*>(after) + row % kPanelColumns;
    }

    static void store_row(const WeightView& weight, int64_t row, const float* values) {
        Vec magnitudes = {};
        Vec nothings = {};  // NaN if a weight is not finite; the scale is then NaN too
        for (int64_t k = 0; k < weight.in_features; k += kLanes) {
            const Vec magnitude = absolute(load_first(values + k, smaller(kLanes, weight.in_features - k)));
            magnitudes = choose(magnitude > magnitudes, magnitude, magnitudes);
            nothings += magnitude * 0.0f;
        }
        const float largest = max_lanes(magnitudes);
        const float nothing = sum_lanes(nothings);
        const float factor = largest > 0.0f ? MicroPanel::kLargest / largest : 0.0f;
        *scales(weight, row) = largest / MicroPanel::kLargest + nothing;
        MicroPanel::store_row(micro_panel_data(weight, row / kColumns), row % kColumns, values,
                              weight.in_features, factor);
    }

    static void load_row(const WeightView& weight, int64_t row, float scale, float* out) {
        const char* micro_panel = micro_panel_data(weight, row / kColumns);
        const float unit = *scales(weight, row) * scale;
        for (int64_t k = 0; k < weight.in_features; ++k) {
            out[k] = static_cast<float>(MicroPanel::number(micro_panel, row % kColumns, k)) * unit;
        }
    }

    /// A row's integer sums, converted to float32 and scaled.
    struct ScaledSums {
        const int32_t* sums;  // [kColumns]
        RowScale input;
        const float* scales;  // [kColumns]

        OUTRIDER_INLINE Vec operator()(int64_t column) const {
            const IntVec sum = load_as<IntVec>(sums + column) + input.correction;
            return __builtin_convertvector(sum, Vec) * load(scales + column) * input.scale;
        }
    };

    template <bool kIsForMany>
    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        for_micro_panel_passes<int32_t, kColumns, MicroPanel::kMostRows>(
            weight, rows, panel, [&](const MicroPanelPass& pass, int32_t* sums) {
                MicroPanel::template add<kIsForMany>({micro_panel_data(weight, pass.micro_panel),
                                                      micro_panel_data(weight, pass.next_micro_panel),
                                                      pass.input, rows.input_stride, weight.in_features,
                                                      pass.rows, sums});
                write_rows<kColumns>(weight, rows, pass, [&](int64_t row) {
                    return ScaledSums{
                        sums + row * kColumns,
                        *QuantisedRow::scale(pass.input + row * rows.input_stride, weight.in_features),
                        scales(weight, pass.micro_panel * kColumns)};
                });
            });
    }

    static constexpr ProductKernel kernel() {
        constexpr bool kHasTwoWays = MicroPanel::kManyRows < kNever;
        return {.panel_bytes = panel_bytes,
                .store_row = store_row,
                .load_row = load_row,
                .input_bytes = MicroPanel::input_bytes,
                .prepare_row = MicroPanel::prepare_row,
                .multiply_panel = multiply_panel<false>,
                .multiply_panel_of_many = kHasTwoWays ? multiply_panel<kHasTwoWays> : nullptr,
                .many_rows = MicroPanel::kManyRows,
                .multiply_registers = MicroPanel::multiply_registers};
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
