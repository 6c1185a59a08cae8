// The matrix product with int4 weights: kInt4Group of K share a scale, in the weights and in the rows.
#pragma once

#include "cpu/int4_group.h"
#include "cpu/int4_sums.h"
#include "cpu/kernels.h"
#include "cpu/panel_sums.h"
#include "cpu/quantised_row.h"
#include "cpu/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Packed as Int4Sums reads it.
struct Int4Product {
    using Sums = Int4Sums;
    static constexpr int kStrip = Sums::kStrip;

    static int64_t groups(int64_t in_features) { return (in_features + kInt4Group - 1) / kInt4Group; }
    static int64_t strip_bytes(int64_t in_features) { return groups(in_features) * Sums::kGroupBytes; }

    static size_t panel_bytes(int in_features) { return kPanelColumns / kStrip * strip_bytes(in_features); }

    static char* strip_data(const WeightView& weight, int64_t strip) {
        return static_cast<char*>(weight.data) + strip * strip_bytes(weight.in_features);
    }

    /// One output feature's part of its strip.
    struct Row {
        char* strip;
        int64_t column;

        Row(const WeightView& weight, int64_t row)
            : strip(strip_data(weight, row / kStrip)), column(row % kStrip) {}
        BFloat16& scale(int64_t group) const {
            return reinterpret_cast<BFloat16*>(strip + group * Sums::kGroupBytes +
                                               Sums::kWeightBytes)[column];
        }
        uint8_t& byte(int64_t group, int k) const {
            char* four = strip + group * Sums::kGroupBytes + k / 8 * Sums::kEightBytes + column * 4;
            return reinterpret_cast<uint8_t*>(four)[k % 4];
        }
        static int shift(int k) { return k % 8 / 4 * 4; }
    };

    static void store_row(const WeightView& weight, int64_t row, const float* values) {
        const Row to(weight, row);
        for (int64_t group = 0; group < groups(weight.in_features); ++group) {
            const int64_t first = group * kInt4Group;
            const Int4Group quantised(values + first, smaller(kInt4Group, weight.in_features - first));
            to.scale(group) = quantised.scale;
            for (int k = 0; k < kInt4Group; ++k) {
                uint8_t& byte = to.byte(group, k);
                const int kept = byte & (0xF0 >> Row::shift(k));
                byte = static_cast<uint8_t>(kept | (quantised.values[k] + kInt4Offset) << Row::shift(k));
            }
        }
    }

    static void load_row(const WeightView& weight, int64_t row, float scale, float* out) {
        const Row from(weight, row);
        for (int64_t k = 0; k < weight.in_features; ++k) {
            const int64_t group = k / kInt4Group;
            const int place = static_cast<int>(k % kInt4Group);
            const int value = (from.byte(group, place) >> Row::shift(place) & 15) - kInt4Offset;
            out[k] = static_cast<float>(value) * (to_float(from.scale(group)) * scale);
        }
    }

    static size_t input_bytes(int in_features) { return QuantisedRow::bytes(in_features, kInt4Group); }
    static void prepare_row(const float* values, int in_features, void* to) {
        quantise_row(values, in_features, kInt4Group, kInt4Offset, to);
    }

    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        for_strip_passes<kStrip>(weight, rows, panel, [&](const StripPass& pass) {
            const char* input = static_cast<const char*>(rows.input) + pass.first_row * rows.input_stride;
            alignas(kCacheLine) float sums[kRowsPerPass * kStrip] = {};
            Sums::add_strip({input, rows.input_stride, QuantisedRow::scales(input, weight.in_features),
                             strip_data(weight, pass.strip), groups(weight.in_features), sums},
                            pass.rows, strip_data(weight, pass.next_strip));
            write_sums<kStrip>(weight, rows, pass, sums);
        });
    }

    static constexpr ProductKernel kernel() {
        return {panel_bytes, store_row, load_row, input_bytes, prepare_row, multiply_panel};
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
