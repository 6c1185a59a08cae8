// The matrix product with integer weights: a scale for each output feature and one for each row, between them
// sums of integers, which are exact.
#pragma once

#include "cpu/kernels.h"
#include "cpu/product/panel_sums.h"
#include "cpu/product/quantised_row.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Some rows' product with one strip.
struct StripRows {
    const char* strip;
    const char* next_strip;
    const char* input;  // [rows, input_stride]
    int64_t input_stride;
    int64_t in_features;
    int64_t rows;
    int32_t* sums;  // [rows, kStrip]
};

/// Packed as [panel] of [strip of output features] and the features' scales in float32. `Strip` says how a
/// strip of kStrip features holds its integers, and what its product reads:
///   kLargest                                        the largest weight becomes it
///   bytes(in_features)                              of one strip
///   store_row(strip, column, values, width, factor)   rounds values * factor
///   number(strip, column, k)                        what was stored
///   input_bytes(in_features), prepare_row(values, in_features, to)
///   add(StripRows)                                  adds the products to the sums
template <typename Strip>
struct IntegerProduct {
    static constexpr int kStrip = Strip::kStrip;
    static constexpr int64_t kStrips = kPanelColumns / kStrip;

    static size_t panel_bytes(int in_features) {
        return kStrips * Strip::bytes(in_features) + kPanelColumns * sizeof(float);
    }

    static char* panel_data(const WeightView& weight, int64_t panel) {
        return static_cast<char*>(weight.data) + panel * panel_bytes(weight.in_features);
    }
    static char* strip_data(const WeightView& weight, int64_t strip) {
        return panel_data(weight, strip / kStrips) + strip % kStrips * Strip::bytes(weight.in_features);
    }
    /// The scales of the output features from `row` to the end of its panel.
    static float* scales(const WeightView& weight, int64_t row) {
        char* behind = panel_data(weight, row / kPanelColumns) + kStrips * Strip::bytes(weight.in_features);
        return reinterpret_cast<float*>(behind) + row % kPanelColumns;
    }

    static void store_row(const WeightView& weight, int64_t row, const float* values) {
        float largest = 0.0f;
        float nothing = 0.0f;  // NaN where a weight is not finite, and so is the scale then
        for (int64_t k = 0; k < weight.in_features; ++k) {
            const float magnitude = __builtin_fabsf(values[k]);
            largest = magnitude > largest ? magnitude : largest;
            nothing += magnitude * 0.0f;
        }
        const float factor = largest > 0.0f ? Strip::kLargest / largest : 0.0f;
        *scales(weight, row) = largest / Strip::kLargest + nothing;
        Strip::store_row(strip_data(weight, row / kStrip), row % kStrip, values, weight.in_features, factor);
    }

    static void load_row(const WeightView& weight, int64_t row, float scale, float* out) {
        const char* strip = strip_data(weight, row / kStrip);
        const float unit = *scales(weight, row) * scale;
        for (int64_t k = 0; k < weight.in_features; ++k) {
            out[k] = static_cast<float>(Strip::number(strip, row % kStrip, k)) * unit;
        }
    }

    /// What the sums of integers stand for.
    static void scale_sums(const int32_t* sums, RowScale input, const float* scales, float* out) {
        for (int column = 0; column < kStrip; column += kLanes) {
            const IntVec sum = load_as<IntVec>(sums + column);
            const Vec exact = __builtin_convertvector(sum + input.correction, Vec);
            store(out + column, exact * load(scales + column) * input.scale);
        }
    }

    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        for_strip_passes<kStrip>(weight, rows, panel, [&](const StripPass& pass) {
            const char* input = static_cast<const char*>(rows.input) + pass.first_row * rows.input_stride;
            alignas(kCacheLine) int32_t sums[kRowsPerPass * kStrip] = {};
            Strip::add({strip_data(weight, pass.strip), strip_data(weight, pass.next_strip), input,
                        rows.input_stride, weight.in_features, pass.rows, sums});
            alignas(kCacheLine) float scaled[kRowsPerPass * kStrip];
            for (int64_t row = 0; row < pass.rows; ++row) {
                scale_sums(sums + row * kStrip,
                           *QuantisedRow::scale(input + row * rows.input_stride, weight.in_features),
                           scales(weight, pass.strip * kStrip), scaled + row * kStrip);
            }
            write_sums<kStrip>(weight, rows, pass, scaled);
        });
    }

    static constexpr ProductKernel kernel() {
        return {panel_bytes, store_row, load_row, Strip::input_bytes, Strip::prepare_row, multiply_panel};
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
