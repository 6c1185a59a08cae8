// Sums of products along K, a step of four bytes of K at a time: one of f32, two of bf16, or four of int8.
// Each lane of a vector is one output feature, and a row's sum runs along K in order in its own lane, so
// neither the other rows nor the register block can be seen in its bits.
#pragma once

#include "cpu/product/row_blocks.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Weights are packed as [strip of output features][step of K][feature][4 bytes]. `Dot` says what a step is,
/// in kParts parts that are added one after the other:
///   Sum                     one vector of sums, of elements Total
///   weights(bytes, part)    what the lanes' weights are in that part
///   values(bytes, part)     the same of a row's four bytes, in every lane
///   add(Sum, weights, values)
template <typename Dot>
struct StepSums {
    using Sum = typename Dot::Sum;
    using Total = typename Dot::Total;

    static constexpr int kStepBytes = 4;
#if defined(__AVX512F__)
    static constexpr int kVectors = 4;     // to a strip
    static constexpr int kRowBlock = 6;    // 24 of 32 registers hold sums
    static constexpr int64_t kSlice = 64;  // steps: they and the next stay in the nearest cache
#else
    static constexpr int kVectors = 2;
    static constexpr int kRowBlock = 4;  // 8 of 16 registers hold sums
    static constexpr int64_t kSlice = 128;
#endif
    static constexpr int kStrip = kVectors * kLanes;
    static constexpr int64_t kStripStepBytes = kStrip * kStepBytes;
    static constexpr int kStepLines = (kStripStepBytes + kCacheLine - 1) / kCacheLine;

    /// Some steps of one strip's product.
    struct Slice {
        const char* input;  // [rows, input_stride]
        int64_t input_stride;
        const char* weights;  // [steps, kStrip, kStepBytes]
        int64_t steps;
        Total* sums;  // [rows, kStrip]
    };

    template <int kRows>
    static void accumulate(const Slice& slice, int64_t first_row, Ahead ahead) {
        const char* input = slice.input + first_row * slice.input_stride;
        Total* sums = slice.sums + first_row * kStrip;
        Sum totals[kRows][kVectors];
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                totals[row][vector] = load_as<Sum>(sums + row * kStrip + vector * kLanes);
            }
        }
        for (int64_t step = 0; step < slice.steps; ++step) {
            ahead.fetch(step * kStripStepBytes);
            ByteVec bytes[kVectors];
            for (int vector = 0; vector < kVectors; ++vector) {
                bytes[vector] =
                    load_as<ByteVec>(slice.weights + step * kStripStepBytes + vector * sizeof(ByteVec));
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
                store_as(sums + row * kStrip + vector * kLanes, totals[row][vector]);
            }
        }
    }

    /// Adds a strip's products with `rows` rows to `whole.sums`; `next` is what is read after it.
    static void add_strip(const Slice& whole, int64_t rows, const char* next) {
        for (int64_t step = 0; step < whole.steps; step += kSlice) {
            const Slice slice{whole.input + step * kStepBytes, whole.input_stride,
                              whole.weights + step * kStripStepBytes, smaller(kSlice, whole.steps - step),
                              whole.sums};
            const bool is_last = step + kSlice >= whole.steps;
            for_row_blocks<kRowBlock>(rows, is_last ? next : slice.weights + kSlice * kStripStepBytes,
                                      kStepLines, [&](auto count, int64_t first, Ahead ahead) {
                                          accumulate<count.value>(slice, first, ahead);
                                      });
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
