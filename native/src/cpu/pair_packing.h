// How bf16 weights are packed for the instructions that multiply pairs of K at a time.
#pragma once

#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Packed as [panel][step of K][tile of sixteen features][pair of K][feature][2], a step being kStep of K; K
/// and features are padded with zeros.
template <int64_t kStep>
struct PairPacking {
    static constexpr int kTiles = kPanelColumns / kLanes;
    static constexpr int64_t kTileValues = kStep * kLanes;
    static constexpr int64_t kStepValues = kTiles * kTileValues;

    static int64_t steps(int in_features) { return (in_features + kStep - 1) / kStep; }

    static size_t panel_bytes(int in_features) {
        return static_cast<size_t>(steps(in_features)) * kStepValues * sizeof(BFloat16);
    }

    static BFloat16* panel_data(const WeightView& weight, int64_t panel) {
        return static_cast<BFloat16*>(weight.data) + panel * steps(weight.in_features) * kStepValues;
    }

    /// Where an output feature's pairs are in the tile of its panel's first step.
    static BFloat16* row_data(const WeightView& weight, int64_t row) {
        const int64_t column = row % kPanelColumns;
        return panel_data(weight, row / kPanelColumns) + column / kLanes * kTileValues + column % kLanes * 2;
    }

    /// Offset of one k from row_data.
    static int64_t offset(int64_t k) {
        return k / kStep * kStepValues + k % kStep / 2 * (2 * kLanes) + k % 2;
    }

    static void store_row(const WeightView& weight, int64_t row, const float* values) {
        BFloat16* to = row_data(weight, row);
        for (int64_t k = 0; k < weight.in_features; k += kLanes) {
            const int64_t count = smaller(kLanes, weight.in_features - k);
            BFloat16 rounded[kLanes];
            store(rounded, load_first(values + k, count));
            for (int64_t lane = 0; lane < count; ++lane) {
                to[offset(k + lane)] = rounded[lane];
            }
        }
    }

    static void load_row(const WeightView& weight, int64_t row, float scale, float* out) {
        const BFloat16* from = row_data(weight, row);
        for (int64_t k = 0; k < weight.in_features; ++k) {
            out[k] = to_float(from[offset(k)]) * scale;
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
