// ExpertTable: experts' matrices of the same kind, which one launch multiplies.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/weights/weight_view.h"
#include "outrider/device/expert_operations.h"
#include "outrider/device/host_device.h"

namespace outrider::cuda {

/// As many as fit into the 4 KiB of kernel arguments of older GPUs.
constexpr int kMostMatrices = 120;

/// Passed to the kernel by value, so that a recording keeps it.
struct ExpertTable {
    ExpertProducts op;  // without its matrices
    WeightView kind;    // format and shape of each matrix, without an address
    int first_column = 0;
    int count = 0;
    int32_t experts[kMostMatrices];
    char* data[kMostMatrices];
    float* scales[kMostMatrices];
    const float* biases[kMostMatrices];

    void add(const ExpertMatrix& matrix, const WeightView& view) {
        experts[count] = matrix.expert;
        data[count] = view.data;
        scales[count] = view.scales;
        biases[count] = matrix.bias;
        ++count;
    }

    OUTRIDER_HOST_DEVICE int64_t first_row(int index) const { return op.rows_of(experts[index]).first; }
    OUTRIDER_HOST_DEVICE int64_t rows(int index) const { return op.rows_of(experts[index]).count; }

    OUTRIDER_HOST_DEVICE WeightView weight(int index) const {
        WeightView view = kind;
        view.data = data[index];
        view.scales = scales[index];
        return view;
    }

    /// The product of one matrix. The input's rows are bf16 if the weights are tiles.
    OUTRIDER_HOST_DEVICE Product product(int index) const {
        const int64_t first = first_row(index);
        const int64_t from = first * op.input.stride + experts[index] * op.in_step;
        const int64_t bytes = op.input.format == Format::f32 ? 4 : 2;
        Product product;
        product.input = op.input;
        product.input.data = static_cast<char*>(op.input.data) + from * bytes;
        product.bias = biases[index];
        product.out = op.out + first * op.out_stride + experts[index] * op.out_step + first_column;
        product.out_stride = op.out_stride;
        product.rows = static_cast<int>(rows(index));
        return product;
    }

    /// The rows of all matrices together.
    int64_t all_rows() const { return op.first_rows ? op.rows : int64_t{op.rows} * count; }

    /// The greatest possible number of tiles of `tile_rows` rows: each matrix that has rows may have a
    /// partial one.
    int64_t most_tiles(int64_t tile_rows) const {
        if (!op.first_rows) {
            return count * ((op.rows + tile_rows - 1) / tile_rows);
        }
        const int64_t begun = std::min<int64_t>(op.rows, count);
        return begun + (op.rows - begun) / tile_rows;
    }
};
static_assert(sizeof(ExpertTable) <= 4000, "there is room for what a kernel has beside it");

}  // namespace outrider::cuda
