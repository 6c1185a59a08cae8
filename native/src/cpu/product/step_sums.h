// Sums of products along K, a step of four bytes of K at a time: one of f32, two of bf16, or four of int8.
// Each lane of a vector is one output feature, and a row's sum runs along K in order in its own lane, so
// neither the other rows nor the register block can be seen in its bits.
#pragma once

#include "cpu/product/row_blocks.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Weights are packed as [micro-panel of output features][step of K][feature][4 bytes]. `Dot` says what a
/// step is, in kParts parts of kProducts products in each lane, which are added one after the other:
///   Sum                     one vector of sums, of elements Total
///   weights(bytes, part)    what the lanes' weights are in that part
///   values(bytes, part)     the same of a row's four bytes, in every lane
///   add(Sum, weights, values)
template <typename Dot>
struct StepSums {
    using Sum = typename Dot::Sum;
    using Total = typename Dot::Total;

    static constexpr int kStepBytes = 4;
    static constexpr int kVectors = RegisterBlocking::kVectors;
    static constexpr int kRowBlock = RegisterBlocking::kRows;
    static constexpr int64_t kSlice = RegisterBlocking::kSteps;
    static constexpr int kColumns = kVectors * kLanes;  // of a micro-panel
    static constexpr int64_t kMicroPanelStepBytes = kColumns * kStepBytes;
    static constexpr int kStepLines = (kMicroPanelStepBytes + kCacheLine - 1) / kCacheLine;

    /// Some steps of one micro-panel's product.
    struct Slice {
        const char* input;  // [rows, input_stride]
        int64_t input_stride;
        const char* weights;  // [steps, kColumns, kStepBytes]
        int64_t steps;
        Total* sums;  // [rows, kColumns]
    };

    template <int kRows>
    static void accumulate(const Slice& slice, int64_t first_row, Ahead ahead) {
        const char* input = slice.input + first_row * slice.input_stride;
        Total* sums = slice.sums + first_row * kColumns;
        Sum totals[kRows][kVectors];
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                totals[row][vector] = load_as<Sum>(sums + row * kColumns + vector * kLanes);
            }
        }
        for (int64_t step = 0; step < slice.steps; ++step) {
            ahead.fetch();
            ByteVec bytes[kVectors];
            for (int vector = 0; vector < kVectors; ++vector) {
                bytes[vector] =
                    load_as<ByteVec>(slice.weights + step * kMicroPanelStepBytes + vector * sizeof(ByteVec));
            }
            for (int part = 0; part < Dot::kParts; ++part) {
                for (int row = 0; row < kRows; ++row) {
                    const auto values = Dot::values(
                        load_as<int32_t>(input + row * slice.input_stride + step * kStepBytes), part);
                    for (int vector = 0; vector < kVectors; ++vector) {
                        totals[row][vector] =
                            Dot::add(totals[row][vector], Dot::weights(bytes[vector], part), values);
                    }
                }
            }
        }
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                store_as(sums + row * kColumns + vector * kLanes, totals[row][vector]);
            }
        }
    }

    /// Adds a micro-panel's products with `rows` rows to `whole.sums`; `next` is what is read after it.
    static void add_micro_panel(const Slice& whole, int64_t rows, const char* next) {
        for (int64_t step = 0; step < whole.steps; step += kSlice) {
            const Slice slice{whole.input + step * kStepBytes, whole.input_stride,
                              whole.weights + step * kMicroPanelStepBytes,
                              smaller(kSlice, whole.steps - step), whole.sums};
            const bool is_last = step + kSlice >= whole.steps;
            for_row_blocks<kRowBlock>(rows, is_last ? next : slice.weights + kSlice * kMicroPanelStepBytes,
                                      slice.steps * kMicroPanelStepBytes, kStepLines,
                                      [&](auto count, int64_t first, Ahead ahead) {
                                          accumulate<count.value>(slice, first, ahead);
                                      });
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
