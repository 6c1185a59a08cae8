// The matrix product with int8 weights: a scale for each output feature and one for each row, between them
// sums of integers, which are exact.
#pragma once

#include "cpu/int8_dot.h"
#include "cpu/kernels.h"
#include "cpu/panel_sums.h"
#include "cpu/quantised_row.h"
#include "cpu/step_sums.h"
#include "cpu/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct Int8Dot {
    using Sum = IntVec;
    using Total = int32_t;
    static constexpr int kParts = 1;

    OUTRIDER_INLINE static ByteVec weights(ByteVec bytes, int) { return bytes; }
    OUTRIDER_INLINE static ByteVec values(int32_t bytes, int) { return bit_cast<ByteVec>(splat(bytes)); }
    OUTRIDER_INLINE static IntVec add(IntVec sum, ByteVec weights, ByteVec values) {
        return dot_int8(sum, weights, values);
    }
};

/// Packed as [panel] of [strip of output features][step of K][feature][4] and the features' scales in
/// float32.
struct Int8Product {
    using Sums = StepSums<Int8Dot>;
    static constexpr int kStrip = Sums::kStrip;
    static constexpr int64_t kStrips = kPanelColumns / kStrip;

    static int64_t steps(int64_t in_features) { return QuantisedRow::padded(in_features) / Sums::kStepBytes; }
    static int64_t strip_bytes(int64_t in_features) { return steps(in_features) * Sums::kStripStepBytes; }

    static size_t panel_bytes(int in_features) {
        return kStrips * strip_bytes(in_features) + kPanelColumns * sizeof(float);
    }

    static char* panel_data(const WeightView& weight, int64_t panel) {
        return static_cast<char*>(weight.data) + panel * panel_bytes(weight.in_features);
    }
    static char* strip_data(const WeightView& weight, int64_t strip) {
        return panel_data(weight, strip / kStrips) + strip % kStrips * strip_bytes(weight.in_features);
    }
    /// The scales of the output features from `row` to the end of its panel.
    static float* scales(const WeightView& weight, int64_t row) {
        char* behind = panel_data(weight, row / kPanelColumns) + kStrips * strip_bytes(weight.in_features);
        return reinterpret_cast<float*>(behind) + row % kPanelColumns;
    }

    /// Where an output feature's first step is.
    static uint8_t* row_data(const WeightView& weight, int64_t row) {
        return reinterpret_cast<uint8_t*>(strip_data(weight, row / kStrip)) + row % kStrip * Sums::kStepBytes;
    }
    /// Offset of one k from row_data.
    static int64_t offset(int64_t k) { return k / 4 * Sums::kStripStepBytes + k % 4; }

    static void store_row(const WeightView& weight, int64_t row, const float* values) {
        float largest = 0.0f;
        float nothing = 0.0f;  // NaN where a weight is not finite, and so is the scale then
        for (int64_t k = 0; k < weight.in_features; ++k) {
            const float magnitude = __builtin_fabsf(values[k]);
            largest = magnitude > largest ? magnitude : largest;
            nothing += magnitude * 0.0f;
        }
        const float factor = largest > 0.0f ? 127.0f / largest : 0.0f;
        *scales(weight, row) = largest / 127.0f + nothing;
        uint8_t* to = row_data(weight, row);
        for (int64_t k = 0; k < weight.in_features; k += kLanes) {
            const int64_t count = smaller(kLanes, weight.in_features - k);
            const IntVec rounded = to_nearest(load_first(values + k, count), factor);
            for (int64_t lane = 0; lane < count; ++lane) {
                to[offset(k + lane)] = static_cast<uint8_t>(rounded[lane] + kInt8Offset);
            }
        }
    }

    static void load_row(const WeightView& weight, int64_t row, float scale, float* out) {
        const uint8_t* from = row_data(weight, row);
        const float unit = *scales(weight, row) * scale;
        for (int64_t k = 0; k < weight.in_features; ++k) {
            out[k] = static_cast<float>(static_cast<int8_t>(from[offset(k)] - kInt8Offset)) * unit;
        }
    }

    static size_t input_bytes(int in_features) {
        return QuantisedRow::bytes(in_features, QuantisedRow::padded(in_features));
    }
    static void prepare_row(const float* values, int in_features, void* to) {
        quantise_row(values, in_features, QuantisedRow::padded(in_features), kInt8Offset, to);
    }

    /// What the sums of integers stand for.
    static void scale_sums(const int32_t* sums, GroupScale input, const float* scales, float* out) {
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
            Sums::add_strip(
                {input, rows.input_stride, strip_data(weight, pass.strip), steps(weight.in_features), sums},
                pass.rows, strip_data(weight, pass.next_strip));
            alignas(kCacheLine) float scaled[kRowsPerPass * kStrip];
            for (int64_t row = 0; row < pass.rows; ++row) {
                scale_sums(sums + row * kStrip,
                           *QuantisedRow::scales(input + row * rows.input_stride, weight.in_features),
                           scales(weight, pass.strip * kStrip), scaled + row * kStrip);
            }
            write_sums<kStrip>(weight, rows, pass, scaled);
        });
    }

    static constexpr ProductKernel kernel() {
        return {panel_bytes, store_row, load_row, input_bytes, prepare_row, multiply_panel};
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
