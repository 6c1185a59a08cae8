// Int8MicroPanel: a micro-panel of eight-bit weights.
#pragma once

#include "cpu/product/integer_product.h"
#include "cpu/product/quantised_row.h"
#include "cpu/vec/vec.h"

#include OUTRIDER_INT8_SUMS  // Int8Sums

namespace outrider::cpu::OUTRIDER_ISA {

/// Packed as [step of K][output feature][4].
struct Int8MicroPanel {
    using Sums = Int8Sums;
    static constexpr int kColumns = Sums::kColumns;
    static constexpr int64_t kMostRows = Sums::kMostRows;
    static constexpr int64_t kManyRows = Sums::kIsTiled ? 9 : kNever;  // below, vectors keep up with memory
    static constexpr float kLargest = 127.0f;

    static int64_t bytes(int64_t in_features) { return QuantisedRow::padded(in_features) * kColumns; }

    static int64_t offset(int64_t column, int64_t k) {
        return k / Sums::kStepBytes * Sums::kMicroPanelStepBytes + column * Sums::kStepBytes +
               k % Sums::kStepBytes;
    }

    static void store_row(char* micro_panel, int64_t column, const float* values, int64_t width,
                          float factor) {
        for (int64_t k = 0; k < width; k += kLanes) {
            const int64_t count = smaller(kLanes, width - k);
            const IntVec rounded = to_nearest(load_first(values + k, count), factor) + kInt8Offset;
            const SmallVec bytes = __builtin_convertvector(rounded, SmallVec);
            const char* from = reinterpret_cast<const char*>(&bytes);
            for (int64_t lane = 0; lane < count; lane += Sums::kStepBytes) {
                __builtin_memcpy(micro_panel + offset(column, k + lane), from + lane,
                                 smaller(Sums::kStepBytes, count - lane));
            }
        }
    }

    static int number(const char* micro_panel, int64_t column, int64_t k) {
        return static_cast<int8_t>(micro_panel[offset(column, k)] - kInt8Offset);
    }

    static size_t input_bytes(int in_features) { return QuantisedRow::bytes(in_features); }
    static void prepare_row(const float* values, int in_features, void* to) {
        quantise_row(values, in_features, kInt8Offset, to);
    }

    template <bool kIsForMany>
    static void add(const MicroPanelRows& part) {
        const int64_t steps = QuantisedRow::padded(part.in_features) / Sums::kStepBytes;
        const typename Sums::Slice whole{part.input, part.input_stride, part.micro_panel, steps, part.sums};
        if constexpr (kIsForMany) {
            Sums::add_micro_panel(whole, part.rows, part.next_micro_panel);
        } else {
            StepSums<Int8Dot>::add_micro_panel(whole, part.rows, part.next_micro_panel);
        }
    }

    static int64_t multiply_registers(int64_t rounds) { return Sums::multiply_registers(rounds); }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
