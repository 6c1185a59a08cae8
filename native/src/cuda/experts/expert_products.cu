#include <span>

#include "cuda/experts/expert_tiles.cuh"
#include "cuda/experts/experts.h"
#include "cuda/product/float_product.cuh"
#include "cuda/weights/cuda_weight.h"

namespace outrider::cuda {
namespace {

/// Computes one float32 output of one of the rows of all matrices, if its expert is in the table.
struct ExpertValue {
    ExpertTable table;

    __device__ void operator()(int64_t place) const {
        const int64_t row = place / table.kind.out_features;
        if (!table.op.first_rows) {
            const auto index = static_cast<int>(row / table.op.rows);
            write_product(table.product(index), table.weight(index), row % table.op.rows,
                          place % table.kind.out_features);
            return;
        }
        for (int index = 0; index < table.count; ++index) {
            const int64_t own_row = row - table.first_row(index);
            if (own_row >= 0 && own_row < table.rows(index)) {
                write_product(table.product(index), table.weight(index), own_row,
                              place % table.kind.out_features);
                return;
            }
        }
    }
};

void multiply(const Stream& stream, const ExpertTable& table) {
    if (table.kind.format == WeightFormat::f32) {
        for_each(stream, table.all_rows() * table.kind.out_features, ExpertValue{table});
    } else {
        with_tile(table.kind.format, [&]<typename Tile>(Tile) { expert_tile_products<Tile>(stream, table); });
    }
}

const WeightView& view_of(const ExpertMatrix& matrix) {
    return static_cast<const CudaWeight*>(matrix.weight)->view();
}

bool are_alike(const ExpertTable& table, const ExpertMatrix& matrix) {
    const WeightView& view = view_of(matrix);
    return view.format == table.kind.format && view.out_features == table.kind.out_features &&
           matrix.first_column == table.first_column;
}

}  // namespace

/// Launches one kernel for all matrices, or one for each run of matrices of the same kind.
void expert_products(const Stream& stream, const ExpertProducts& op) {
    ExpertTable table;
    const auto launch = [&] {
        if (table.count > 0 && op.rows > 0) {
            multiply(stream, table);
        }
        table.count = 0;
    };
    for (const ExpertMatrix& matrix : std::span(op.matrices, op.count)) {
        if (table.count == kMostMatrices || !are_alike(table, matrix)) {
            launch();
        }
        if (table.count == 0) {
            table.op = op;
            table.op.matrices = nullptr;
            table.kind = view_of(matrix);
            table.first_column = matrix.first_column;
        }
        table.add(matrix, view_of(matrix));
    }
    launch();
}

}  // namespace outrider::cuda
