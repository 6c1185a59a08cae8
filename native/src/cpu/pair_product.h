// The bf16 matrix product on AVX-512-BF16: each lane of a vector is one output feature, to which an
// instruction adds the products of one pair of K. A row's sum runs along K in order in its own lane, and the
// instruction rounds without regard to MXCSR, so neither the other rows nor the register block can be seen in
// its bits.
#pragma once

#include "cpu/kernels.h"
#include "cpu/pair_packing.h"
#include "cpu/panel_sums.h"
#include "cpu/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct PairProduct {
    using Packing = PairPacking<2>;
    static constexpr int kVectors = Packing::kTiles;
    static constexpr int kRowBlock = 6;  // 24 of 32 registers hold sums
    static constexpr int64_t kRowsPerPass = 16;
    static constexpr int64_t kSlice =
        128;  // pairs: what stays in the nearest cache while all rows pass over it

    /// A slice of one panel's product.
    struct Slice {
        const BFloat16* input;  // [rows, input_stride]
        int64_t input_stride;
        const BFloat16* weights;  // [pairs, kPanelColumns, 2]
        int64_t pairs;
        float* sums;  // [rows, kPanelColumns]
    };

    static __m512bh load_pairs(const BFloat16* from) { return bit_cast<__m512bh>(_mm512_loadu_si512(from)); }

    static __m512bh splat_pair(const BFloat16* from) {
        int32_t pair;
        __builtin_memcpy(&pair, from, sizeof(pair));
        return bit_cast<__m512bh>(_mm512_set1_epi32(pair));
    }

    /// sums[row] += input[row][k] * weights[k], for each pair of k in turn.
    template <int kRows>
    static void accumulate(const Slice& slice, int64_t first_row) {
        const BFloat16* input = slice.input + first_row * slice.input_stride;
        float* sums = slice.sums + first_row * kPanelColumns;
        __m512 totals[kRows][kVectors];
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                totals[row][vector] = _mm512_loadu_ps(sums + row * kPanelColumns + vector * kLanes);
            }
        }
        for (int64_t pair = 0; pair < slice.pairs; ++pair) {
            __m512bh weights[kVectors];
            for (int vector = 0; vector < kVectors; ++vector) {
                weights[vector] =
                    load_pairs(slice.weights + pair * Packing::kStepValues + vector * Packing::kTileValues);
            }
            for (int row = 0; row < kRows; ++row) {
                const __m512bh values = splat_pair(input + row * slice.input_stride + 2 * pair);
                for (int vector = 0; vector < kVectors; ++vector) {
                    totals[row][vector] = _mm512_dpbf16_ps(totals[row][vector], values, weights[vector]);
                }
            }
        }
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                _mm512_storeu_ps(sums + row * kPanelColumns + vector * kLanes, totals[row][vector]);
            }
        }
    }

    /// Blocks of kRows rows, then smaller ones for what is left.
    template <int kRows>
    static void accumulate_rows(const Slice& slice, int64_t row, int64_t end) {
        for (; row + kRows <= end; row += kRows) {
            accumulate<kRows>(slice, row);
        }
        if constexpr (kRows > 1) {
            accumulate_rows<kRows - 1>(slice, row, end);
        }
    }

    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        const BFloat16* weights = Packing::panel_data(weight, panel);
        const int64_t pairs = Packing::steps(weight.in_features);
        for (int64_t first = rows.first_row; first < rows.end_row; first += kRowsPerPass) {
            const int64_t count = smaller(kRowsPerPass, rows.end_row - first);
            const BFloat16* input = static_cast<const BFloat16*>(rows.input) + first * rows.input_stride;
            float sums[kRowsPerPass * kPanelColumns] = {};
            for (int64_t pair = 0; pair < pairs; pair += kSlice) {
                const Slice slice{input + 2 * pair, rows.input_stride, weights + pair * Packing::kStepValues,
                                  smaller(kSlice, pairs - pair), sums};
                accumulate_rows<kRowBlock>(slice, 0, count);
            }
            write_sums<kPanelColumns>(weight, rows, panel * kPanelColumns, first, count, sums);
        }
    }

    static constexpr ProductKernel kernel() {
        return {Packing::panel_bytes, Packing::store_row, Packing::load_row, multiply_panel};
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
