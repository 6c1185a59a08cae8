// Sums of products along K, a step of four bytes of K at a time: one product of f32, two of bf16, or four of
// int8. Each lane of a vector is one output feature, and a row's sum runs along K in order in its own lane,
// so the result depends neither on the other rows nor on the register block.
#pragma once

#include "cpu/product/row_blocks.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Weights are packed as [micro-panel of output features][step of K][feature][4 bytes]. `Dot` defines a step
/// as kParts parts of kProducts products in each lane, which are added one after the other:
///   Sum                     one vector of sums, of elements Total
///   weights(bytes, part)    the lanes' weights in that part
///   values(bytes, part)     a row's values in that part, in every lane
///   add(Sum, weights, values)
template <typename Dot>
struct StepSums {
    using Sum = typename Dot::Sum;
    using Total = typename Dot::Total;

    static constexpr int kStepBytes = 4;
    static constexpr int kVectors = RegisterBlocking::kVectors;
    static constexpr int kRowBlock = RegisterBlocking::kRows;
    static constexpr int64_t kSlice = RegisterBlocking::kSteps;
    static constexpr int kColumns = kVectors * kLanes;  // columns of a micro-panel
    static constexpr int64_t kMicroPanelStepBytes = kColumns * kStepBytes;
    static constexpr int kStepLines = (kMicroPanelStepBytes + kCacheLine - 1) / kCacheLine;

    /// Some steps of one micro-panel's product.
    struct Slice {
        const char* input;  // [rows, input_stride]
        int64_t input_stride;
        const char* weights;  // [steps, kColumns, kStepBytes]
        int64_t steps;        // at least 1
        Total* sums;          // [rows, kColumns]
    };

    template <int kRows>
    static void accumulate(const Slice& slice, int64_t first_row, Ahead ahead) {
        const char* input = slice.input + first_row * slice.input_stride;
        Total* sums = slice.sums + first_row * kColumns;
        Sum totals[kRows][kVectors];
        load_sums(sums, totals);
        int64_t step = 0;
        do {
            ahead.fetch();
            add_step(slice, input, step, totals);
        } while (++step < slice.steps);
        store_sums(totals, sums);
    }

    template <int kRows>
    OUTRIDER_INLINE static void load_sums(const Total* sums, Sum (&totals)[kRows][kVectors]) {
        OUTRIDER_UNROLLED
        for (int row = 0; row < kRows; ++row) {
            OUTRIDER_UNROLLED
            for (int vector = 0; vector < kVectors; ++vector) {
                totals[row][vector] = load_as<Sum>(sums + row * kColumns + vector * kLanes);
            }
        }
    }

    template <int kRows>
    OUTRIDER_INLINE static void store_sums(const Sum (&totals)[kRows][kVectors], Total* sums) {
        OUTRIDER_UNROLLED
        for (int row = 0; row < kRows; ++row) {
            OUTRIDER_UNROLLED
            for (int vector = 0; vector < kVectors; ++vector) {
                store_as(sums + row * kColumns + vector * kLanes, totals[row][vector]);
            }
        }
    }

    /// Adds one step's products with the rows from `input` on.
    template <int kRows>
    OUTRIDER_INLINE static void add_step(const Slice& slice, const char* input, int64_t step,
                                         Sum (&totals)[kRows][kVectors]) {
        ByteVec bytes[kVectors];
        OUTRIDER_UNROLLED
        for (int vector = 0; vector < kVectors; ++vector) {
            bytes[vector] =
                load_as<ByteVec>(slice.weights + step * kMicroPanelStepBytes + vector * sizeof(ByteVec));
        }
        OUTRIDER_UNROLLED
        for (int part = 0; part < Dot::kParts; ++part) {
            OUTRIDER_UNROLLED
            for (int row = 0; row < kRows; ++row) {
                const auto values =
                    Dot::values(load_as<int32_t>(input + row * slice.input_stride + step * kStepBytes), part);
                OUTRIDER_UNROLLED
                for (int vector = 0; vector < kVectors; ++vector) {
                    totals[row][vector] =
                        Dot::add(totals[row][vector], Dot::weights(bytes[vector], part), values);
                }
            }
        }
    }

    /// Adds a micro-panel's products with `rows` rows to `whole.sums`; `next` is the memory that is read
    /// next.
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
