// ProductKernel: what one instruction set does for the matrices of one format.
#pragma once

#include <cstddef>
#include <cstdint>

#include "outrider/device/format.h"

namespace outrider::cpu {

/// Output features per task of a matrix product, and per unit of packing.
constexpr int kPanelColumns = 64;

/// A packed matrix; its layout is known to the ProductKernel that packed it.
struct WeightView {
    void* data = nullptr;
    int out_features = 0;
    int in_features = 0;
};

/// Part of a product: all rows from first_row to end_row, for the output features of one panel.
struct ProductRows {
    const void* input = nullptr;
    int64_t input_stride = 0;  // bytes
    const float* bias = nullptr;
    float* out = nullptr;  // [rows, out_stride]
    int64_t out_stride = 0;
    int64_t first_row = 0;
    int64_t end_row = 0;
    int64_t panels_ahead = 1;  // to the panel that this thread is likely to multiply next
};

struct ProductKernel {
    /// Bytes of one packed panel.
    size_t (*panel_bytes)(int in_features);
    /// Packs one output feature.  # values: [in_features]
    void (*store_row)(const WeightView& weight, int64_t row, const float* values) = nullptr;
    /// The same where the weight is grouped.  # values: of that one row
    void (*store_groups)(const WeightView& weight, int64_t row, const GroupedRows& values) = nullptr;
    /// out = scale * one row of the weight.
    void (*load_row)(const WeightView& weight, int64_t row, float scale, float* out);
    /// Where the product reads its input in a form of its own: the bytes of one row in it, and what makes
    /// them of a row that is zero beyond its width. Else null.
    size_t (*input_bytes)(int in_features) = nullptr;
    void (*prepare_row)(const float* values, int in_features, void* to) = nullptr;
    void (*multiply_panel)(const WeightView& weight, const ProductRows& rows, int64_t panel);
    /// Its products, of numbers in registers, again and again; returns the number of operations.
    int64_t (*multiply_registers)(int64_t rounds);
};

}  // namespace outrider::cpu
