// Int8Sums on AMX tiles: the sums are exact, so they equal those of the vectors.
#pragma once

#include "cpu/product/int8_dot.h"
#include "cpu/product/step_sums.h"
#include "cpu/product/tile_sums.h"
#include "cpu/product/tiled_groups.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Weights have the layout of StepSums: four of K for each of a panel's features.
struct Int8Tiles {
    using Total = int32_t;
    static constexpr int64_t kRowStride = kPanelColumns * 4;
    static constexpr int64_t kTileStride = kTileRowBytes;
    static constexpr int64_t kStepValues = kTileRowBytes;

    template <int kSums, int kRows, int kWeights>
    OUTRIDER_INLINE static void multiply() {
        Tiles::multiply_int8<kSums, kRows, kWeights>();
    }
};
static_assert(kInt8Offset == 128, "the instruction takes its weights without a sign");

/// The sums of int8 products with this instruction set; all sets have the same sums.
struct Int8Sums : StepSums<Int8Dot> {
    using Sums = TileSums<Int8Tiles>;
    static_assert(kColumns == kPanelColumns, "a micro-panel is a panel");
    static constexpr bool kIsTiled = true;
    static constexpr int64_t kMostRows = Sums::kMostRows;
    static constexpr int64_t kTileSteps = kTileRows;  // steps of four bytes per step of a tile

    static void add_micro_panel(const Slice& whole, int64_t rows, const char* next) {
        Sums::add_panel(tiled(whole), rows, next);
        add_rest(whole, rows);
    }

    static void add_slice(const Slice& slice, int64_t rows, Ahead ahead) {
        Sums::add_slice(tiled(slice), rows, ahead);
        add_rest(slice, rows);
    }

    static int64_t multiply_registers(int64_t rounds) { return Sums::multiply_registers(rounds); }

  private:
    static Sums::Slice tiled(const Slice& some) {
        return {some.input, some.input_stride, some.weights, some.steps / kTileSteps, some.sums};
    }

    /// Adds the steps after the last whole step of a tile.
    static void add_rest(const Slice& some, int64_t rows) {
        const int64_t done = some.steps / kTileSteps * kTileSteps;
        if (done == some.steps) {
            return;
        }
        const Slice rest{some.input + done * kStepBytes, some.input_stride,
                         some.weights + done * kMicroPanelStepBytes, some.steps - done, some.sums};
        for_row_blocks<kRowBlock>(rows, nullptr, 0, kStepLines, [&](auto count, int64_t first, Ahead ahead) {
            accumulate<count.value>(rest, first, ahead);
        });
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
