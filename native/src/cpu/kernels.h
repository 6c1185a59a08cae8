// Kernels: what one instruction set offers to the CPU device. Each function does one task of an operation;
// the device shares the tasks among its threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "outrider/device/operations.h"

namespace outrider::cpu {

/// Output features per task of a matrix product, and per unit of packing.
constexpr int kPanelColumns = 64;

/// Columns of an element-wise operation per task.
constexpr int kColumnsPerTask = 1024;

/// Largest head that attention keeps room for.
constexpr int kMaxHeadDim = 512;

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
    float* out = nullptr;  // [rows, out_features]
    int64_t first_row = 0;
    int64_t end_row = 0;
    int64_t panels_ahead = 1;  // to the panel that this thread is likely to multiply next
};

/// Part of an attention: some rows, and some query heads of one group.
struct AttentionPart {
    int64_t kv_head = 0;
    int64_t first_row = 0;
    int64_t end_row = 0;
    int64_t first_head = 0;
    int64_t end_head = 0;
};

struct ProductKernel {
    /// Bytes of one packed panel.
    size_t (*panel_bytes)(int in_features);
    /// Packs one output feature.  # values: [in_features]
    void (*store_row)(const WeightView& weight, int64_t row, const float* values);
    /// out = scale * one row of the weight.
    void (*load_row)(const WeightView& weight, int64_t row, float scale, float* out);
    /// Where the product reads its input in a form of its own: the bytes of one row in it, and what makes
    /// them of a row that is zero beyond its width. Else null.
    size_t (*input_bytes)(int in_features) = nullptr;
    void (*prepare_row)(const float* values, int in_features, void* to) = nullptr;
    void (*multiply_panel)(const WeightView& weight, const ProductRows& rows, int64_t panel);
};

struct Kernels {
    const char* name;
    ProductKernel product_f32;
    ProductKernel product_bf16;
    ProductKernel product_int8;
    ProductKernel product_int4;
    /// Bytes of one block, keys and values of all heads.
    int64_t (*kv_block_bytes)(KvFormat format, int num_kv_heads, int head_dim);
    void (*rotary_angles)(const RotaryAngles& op, int64_t row);
    void (*residual_norm)(const ResidualNorm& op, int64_t row);
    void (*rotate_and_store)(const RotateAndStore& op, int64_t row);
    void (*attention)(const Attention& op, const AttentionPart& part);
    void (*gated_activation)(const GatedActivation& op, int64_t row, int64_t first_column,
                             int64_t end_column);
    void (*soft_cap)(const SoftCap& op, int64_t first, int64_t end);
    /// Loads each byte once.  # bytes: a multiple of kReadUnit
    void (*read)(const char* from, int64_t bytes);

    const ProductKernel& product(WeightFormat format) const {
        switch (format) {
            case WeightFormat::f32:
                return product_f32;
            case WeightFormat::bf16:
                return product_bf16;
            case WeightFormat::int8:
                return product_int8;
            default:
                return product_int4;
        }
    }
};

/// Null where this machine cannot run them.
const Kernels* find_kernels(const char* isa);

}  // namespace outrider::cpu
