// The matrix product on vector units. Each lane of a vector is one output feature, and a row's sum runs along
// K in order in its own lane, so neither the other rows nor the register block can be seen in its bits.
#pragma once

#include "cpu/kernels.h"
#include "cpu/packed_rows.h"
#include "cpu/panel_sums.h"
#include "cpu/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Packed as [strip of output features][in_features][feature].
template <typename T>
struct PanelProduct {
    using Value = T;
    static constexpr int kVectors = 4;  // to a strip
    static constexpr int kStrip = kVectors * kLanes;
#if defined(__AVX512F__)
    static constexpr int kRowBlock = 4;  // 16 of 32 registers hold sums
#else
    static constexpr int kRowBlock = 2;  // 8 of 16 registers hold sums
#endif
    static constexpr int64_t kRowsPerPass = 16;
    static constexpr int64_t kSlice =
        256;  // of K: what is widened to float32 at a time, to stay in the nearest cache
    static_assert(kPanelColumns % kStrip == 0, "a panel is whole strips");

    static size_t panel_bytes(int in_features) {
        return static_cast<size_t>(kPanelColumns) * in_features * sizeof(T);
    }

    static T* strip_data(const WeightView& weight, int64_t strip) {
        return static_cast<T*>(weight.data) + strip * kStrip * weight.in_features;
    }

    static T* row_data(const WeightView& weight, int64_t row) {
        return strip_data(weight, row / kStrip) + row % kStrip;
    }

    /// Offset of one k from row_data.
    static int64_t offset(int64_t k) { return k * kStrip; }

    /// A slice of one strip's product.
    template <typename Weight>
    struct Slice {
        const float* input;  // [rows, input_stride]
        int64_t input_stride;
        const Weight* weights;  // [depth, kStrip]
        int64_t depth;
        float* sums;  // [rows, kStrip]
    };

    /// sums[row] += input[row][k] * weights[k], for each k in turn.
    template <int kRows, typename Weight>
    static void accumulate(const Slice<Weight>& slice, int64_t first_row) {
        const float* input = slice.input + first_row * slice.input_stride;
        float* sums = slice.sums + first_row * kStrip;
        Vec totals[kRows][kVectors];
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                totals[row][vector] = load(sums + row * kStrip + vector * kLanes);
            }
        }
        for (int64_t k = 0; k < slice.depth; ++k) {
            Vec weights[kVectors];
            for (int vector = 0; vector < kVectors; ++vector) {
                weights[vector] = load(slice.weights + k * kStrip + vector * kLanes);
            }
            for (int row = 0; row < kRows; ++row) {
                const Vec value = splat(input[row * slice.input_stride + k]);
                for (int vector = 0; vector < kVectors; ++vector) {
                    totals[row][vector] = multiply_add(value, weights[vector], totals[row][vector]);
                }
            }
        }
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                store(sums + row * kStrip + vector * kLanes, totals[row][vector]);
            }
        }
    }

    /// Blocks of kRows rows, then smaller ones for what is left.
    template <int kRows, typename Weight>
    static void accumulate_rows(const Slice<Weight>& slice, int64_t row, int64_t end) {
        for (; row + kRows <= end; row += kRows) {
            accumulate<kRows>(slice, row);
        }
        if constexpr (kRows > 1) {
            accumulate_rows<kRows - 1>(slice, row, end);
        }
    }

    static void widen(const BFloat16* from, int64_t count, float* to) {
        for (int64_t index = 0; index < count; index += kLanes) {
            store_first(to + index, load_first(from + index, count - index), count - index);
        }
    }

    static void multiply_slice(const Slice<float>& slice, int64_t rows) {
        accumulate_rows<kRowBlock>(slice, 0, rows);
    }
    static void multiply_slice(const Slice<BFloat16>& slice, int64_t rows) {
        if (rows <= kRowBlock) {  // every weight is used once: it is widened on its way into a register
            accumulate_rows<kRowBlock>(slice, 0, rows);
            return;
        }
        float widened[kSlice * kStrip];
        widen(slice.weights, slice.depth * kStrip, widened);
        multiply_slice(Slice<float>{slice.input, slice.input_stride, widened, slice.depth, slice.sums}, rows);
    }

    static void set_input(Slice<T>& slice, const float* input, int64_t stride, int64_t, float*) {
        slice.input = input;
        slice.input_stride = stride;
    }
    static void set_input(Slice<T>& slice, const BFloat16* input, int64_t stride, int64_t rows,
                          float* widened) {
        for (int64_t row = 0; row < rows; ++row) {
            widen(input + row * stride, slice.depth, widened + row * kSlice);
        }
        slice.input = widened;
        slice.input_stride = kSlice;
    }

    static void multiply_strip(const WeightView& weight, const ProductRows& rows, int64_t strip,
                               int64_t first, int64_t count) {
        float sums[kRowsPerPass * kStrip] = {};
        float wide_input[kRowsPerPass * kSlice];
        const int64_t stride = rows.input_stride / static_cast<int64_t>(sizeof(T));
        const T* input = static_cast<const T*>(rows.input) + first * stride;
        const T* weights = strip_data(weight, strip);
        for (int64_t k = 0; k < weight.in_features; k += kSlice) {
            Slice<T> slice{};
            slice.weights = weights + k * kStrip;
            slice.depth = smaller(kSlice, weight.in_features - k);
            slice.sums = sums;
            set_input(slice, input + k, stride, count, wide_input);
            multiply_slice(slice, count);
        }
        write_sums<kStrip>(weight, rows, strip * kStrip, first, count, sums);
    }

    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        const int64_t first_strip = panel * kPanelColumns / kStrip;
        const int64_t end_strip =
            smaller((panel + 1) * kPanelColumns, weight.out_features + kStrip - 1) / kStrip;
        for (int64_t strip = first_strip; strip < end_strip; ++strip) {
            for (int64_t first = rows.first_row; first < rows.end_row; first += kRowsPerPass) {
                multiply_strip(weight, rows, strip, first, smaller(kRowsPerPass, rows.end_row - first));
            }
        }
    }

    static constexpr ProductKernel kernel() {
        using Rows = PackedRows<PanelProduct>;
        return {panel_bytes, Rows::store_row, Rows::load_row, nullptr, nullptr, multiply_panel};
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
