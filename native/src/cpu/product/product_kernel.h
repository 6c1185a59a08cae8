// ProductKernel: the functions of one instruction set for the matrices of one format.
#pragma once

#include <cstddef>
#include <cstdint>

#include "outrider/device/format.h"

namespace outrider::cpu {

/// The number of output features per task of a matrix product, and per unit of packing.
constexpr int kPanelColumns = 64;

/// A packed matrix, in the layout of the ProductKernel that packed it.
struct WeightView {
    void* data = nullptr;
    int out_features = 0;
    int in_features = 0;
};

/// A part of a product: rows first_row ... end_row - 1, for the output features of one panel.
struct ProductRows {
    const void* input = nullptr;
    int64_t input_stride = 0;  // bytes
    const float* bias = nullptr;
    float* out = nullptr;  // [rows, out_stride]
    int64_t out_stride = 0;
    int64_t first_row = 0;
    int64_t end_row = 0;
    int64_t panels_ahead = 1;  // distance to the panel that this thread is likely to multiply next
};

struct ProductKernel {
    /// The bytes of one packed panel.
    size_t (*panel_bytes)(int in_features);
    /// Packs one output feature.  # values: [in_features]
    void (*store_row)(const WeightView& weight, int64_t row, const float* values) = nullptr;
    /// Packs one output feature of a grouped weight.  # values: of that one row
    void (*store_groups)(const WeightView& weight, int64_t row, const GroupedRows& values) = nullptr;
    /// out = scale * one row of the weight.
    void (*load_row)(const WeightView& weight, int64_t row, float scale, float* out);
    /// For products that read their input in another form: the bytes of one prepared row, and the function
    /// that prepares it from a row that is zero beyond its width. Otherwise null.
    size_t (*input_bytes)(int in_features) = nullptr;
    void (*prepare_row)(const float* values, int in_features, void* to) = nullptr;
    void (*multiply_panel)(const WeightView& weight, const ProductRows& rows, int64_t panel);
    /// The same bits in another way, if there is one, which is faster with many rows: usually from many_rows
    /// rows on.
    void (*multiply_panel_of_many)(const WeightView& weight, const ProductRows& rows,
                                   int64_t panel) = nullptr;
    int64_t many_rows = 0;
    /// Repeats the kernel's products with numbers in registers; returns the number of operations.
    int64_t (*multiply_registers)(int64_t rounds);
};

}  // namespace outrider::cpu
