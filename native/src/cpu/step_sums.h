// Sums of products along K for instructions that take a step of four bytes of K at a time: two of bf16, or
// four of int8. Each lane of a vector is one output feature, and a row's sum runs along K in order in its own
// lane, so neither the other rows nor the register block can be seen in its bits.
#pragma once

#include "cpu/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Weights are packed as [strip of output features][step of K][feature][4 bytes]. `Dot` says what a step is:
///   Sum                         one vector of sums, of elements Total
///   add(Sum, weights, values)   the sum with a step of each lane's weights times the same four bytes of
///   input
template <typename Dot>
struct StepSums {
    using Sum = typename Dot::Sum;
    using Total = typename Dot::Total;

    static constexpr int kStepBytes = 4;
    static constexpr int kVectors = 4;  // to a strip
    static constexpr int kStrip = kVectors * kLanes;
    static constexpr int64_t kStripStepBytes = kStrip * kStepBytes;
#if defined(__AVX512F__)
    static constexpr int kRowBlock = 6;  // 24 of 32 registers hold sums
#else
    static constexpr int kRowBlock = 2;  // 8 of 16 registers hold sums
#endif
    static constexpr int64_t kSlice =
        128;  // steps: what stays in the nearest cache while all rows pass over it

    /// Part of one strip's product.
    struct Slice {
        const char* input;  // [rows, input_stride]
        int64_t input_stride;
        const char* weights;  // [steps, kStrip, kStepBytes]
        int64_t steps;
        Total* sums;  // [rows, kStrip]
    };

    template <int kRows>
    static void accumulate(const Slice& slice, int64_t first_row) {
        const char* input = slice.input + first_row * slice.input_stride;
        Total* sums = slice.sums + first_row * kStrip;
        Sum totals[kRows][kVectors];
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                totals[row][vector] = load_as<Sum>(sums + row * kStrip + vector * kLanes);
            }
        }
        for (int64_t step = 0; step < slice.steps; ++step) {
            ByteVec weights[kVectors];
            for (int vector = 0; vector < kVectors; ++vector) {
                weights[vector] =
                    load_as<ByteVec>(slice.weights + step * kStripStepBytes + vector * sizeof(ByteVec));
            }
            for (int row = 0; row < kRows; ++row) {
                const int32_t values = load_as<int32_t>(input + row * slice.input_stride + step * kStepBytes);
                for (int vector = 0; vector < kVectors; ++vector) {
                    totals[row][vector] = Dot::add(totals[row][vector], weights[vector], values);
                }
            }
        }
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                __builtin_memcpy(sums + row * kStrip + vector * kLanes, &totals[row][vector], sizeof(Sum));
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

    /// Adds a strip's products with `rows` rows to `whole.sums`.
    static void add_strip(const Slice& whole, int64_t rows) {
        for (int64_t step = 0; step < whole.steps; step += kSlice) {
            const Slice slice{whole.input + step * kStepBytes, whole.input_stride,
                              whole.weights + step * kStripStepBytes, smaller(kSlice, whole.steps - step),
                              whole.sums};
            accumulate_rows<kRowBlock>(slice, 0, rows);
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
