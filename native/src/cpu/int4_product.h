// The matrix product with int4 weights: kInt4Group of K share a scale, in the weights and in the rows; within
// a group sums are of integers, and the groups are added up in order.
#pragma once

#include "cpu/int4_group.h"
#include "cpu/int8_dot.h"
#include "cpu/kernels.h"
#include "cpu/panel_sums.h"
#include "cpu/quantised_row.h"
#include "cpu/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Packed as [panel] of [tile of kLanes features][group][4][feature][4 bytes] and [tile][group][feature] of
/// scales in bf16. The low half of byte j of four bytes i is k = 8 i + j of the group, the high half k = 8 i
/// + 4 + j.
struct Int4Product {
    static constexpr int kTiles = kPanelColumns / kLanes;
    static constexpr int kSteps = kInt4Group / 4;
    static constexpr int64_t kGroupBytes = kLanes * kInt4Group / 2;
    static constexpr int64_t kRowsPerPass = 16;
#if defined(__AVX512F__)
    static constexpr int kRowBlock = 16;  // of 32 registers 16 hold totals and 8 hold weights
#else
    static constexpr int kRowBlock = 4;
#endif

    static int64_t groups(int64_t in_features) { return (in_features + kInt4Group - 1) / kInt4Group; }
    static int64_t tile_bytes(int64_t in_features) { return groups(in_features) * kGroupBytes; }

    static size_t panel_bytes(int in_features) {
        return kTiles * (tile_bytes(in_features) + groups(in_features) * kLanes * sizeof(BFloat16));
    }

    static char* panel_data(const WeightView& weight, int64_t panel) {
        return static_cast<char*>(weight.data) + panel * panel_bytes(weight.in_features);
    }
    static uint8_t* tile_data(const WeightView& weight, int64_t panel, int64_t tile) {
        return reinterpret_cast<uint8_t*>(panel_data(weight, panel) + tile * tile_bytes(weight.in_features));
    }
    static BFloat16* tile_scales(const WeightView& weight, int64_t panel, int64_t tile) {
        char* scales = panel_data(weight, panel) + kTiles * tile_bytes(weight.in_features);
        return reinterpret_cast<BFloat16*>(scales) + tile * groups(weight.in_features) * kLanes;
    }

    /// One output feature's part of its tile.
    struct Row {
        uint8_t* bytes;
        BFloat16* scales;

        Row(const WeightView& weight, int64_t row) {
            const int64_t panel = row / kPanelColumns;
            const int64_t tile = row % kPanelColumns / kLanes;
            bytes = tile_data(weight, panel, tile) + row % kLanes * 4;
            scales = tile_scales(weight, panel, tile) + row % kLanes;
        }
        BFloat16& scale(int64_t group) const { return scales[group * kLanes]; }
        uint8_t& byte(int64_t group, int k) const {
            return bytes[group * kGroupBytes + k / 8 * (4 * kLanes) + k % 4];
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
        quantise_row(values, in_features, kInt4Group, to);
    }

    /// A tile's product with some rows.
    struct Task {
        const char* input;  // [rows, input_stride]
        int64_t input_stride;
        int64_t in_features;
        const uint8_t* weights;
        const BFloat16* scales;
        float* sums;  // [rows, kPanelColumns]
    };

    static void load_group(const uint8_t* from, ByteVec* weights) {
        for (int step = 0; step < kSteps; step += 2) {
            const ByteVec both = load_as<ByteVec>(from + step / 2 * sizeof(ByteVec));
            weights[step] = both & 15;
            weights[step + 1] = both >> 4;
        }
    }

    OUTRIDER_INLINE static Vec group_sum(const char* values, GroupScale input, const ByteVec* weights) {
        IntVec even = IntVec{} - kInt4Offset * input.sum;
        IntVec odd = {};
        for (int step = 0; step < kSteps; step += 2) {
            even = dot_small(even, weights[step], load_as<int32_t>(values + 4 * step));
            odd = dot_small(odd, weights[step + 1], load_as<int32_t>(values + 4 * step + 4));
        }
        return __builtin_convertvector(even + odd, Vec);
    }

    template <int kRows>
    static void multiply_rows(const Task& task, int64_t first_row) {
        const char* input = task.input + first_row * task.input_stride;
        Vec totals[kRows] = {};
        for (int64_t group = 0; group < groups(task.in_features); ++group) {
            ByteVec weights[kSteps];
            load_group(task.weights + group * kGroupBytes, weights);
            const Vec scale = load(task.scales + group * kLanes);
            for (int row = 0; row < kRows; ++row) {
                const char* values = input + row * task.input_stride;
                const GroupScale input_scale = QuantisedRow::scales(values, task.in_features)[group];
                const Vec sum = group_sum(values + group * kInt4Group, input_scale, weights);
                totals[row] = multiply_add(sum * scale, splat(input_scale.scale), totals[row]);
            }
        }
        for (int row = 0; row < kRows; ++row) {
            store(task.sums + (first_row + row) * kPanelColumns, totals[row]);
        }
    }

    /// Blocks of kRows rows, then of half as many.
    template <int kRows>
    static void multiply_tile(const Task& task, int64_t row, int64_t end) {
        for (; row + kRows <= end; row += kRows) {
            multiply_rows<kRows>(task, row);
        }
        if constexpr (kRows > 1) {
            multiply_tile<kRows / 2>(task, row, end);
        }
    }

    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        const int64_t columns = smaller(kPanelColumns, weight.out_features - panel * kPanelColumns);
        for (int64_t first = rows.first_row; first < rows.end_row; first += kRowsPerPass) {
            const int64_t count = smaller(kRowsPerPass, rows.end_row - first);
            float sums[kRowsPerPass * kPanelColumns];
            for (int64_t tile = 0; tile * kLanes < columns; ++tile) {
                multiply_tile<kRowBlock>(
                    {static_cast<const char*>(rows.input) + first * rows.input_stride, rows.input_stride,
                     weight.in_features, tile_data(weight, panel, tile), tile_scales(weight, panel, tile),
                     sums + tile * kLanes},
                    0, count);
            }
            write_sums<kPanelColumns>(weight, rows, panel * kPanelColumns, first, count, sums);
        }
    }

    static constexpr ProductKernel kernel() {
        return {panel_bytes, store_row, load_row, input_bytes, prepare_row, multiply_panel};
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
