// tensor_product: the matrix product on tensor cores, by the number of rows.
#pragma once

#include "cuda/product/sliced_product.cuh"
#include "cuda/product/wide_launch.cuh"

namespace outrider::cuda {

template <typename Tile>
void tensor_product(const Stream& stream, const Product& op, const WeightView& weight) {
    if (op.rows <= kMostSlicedRows) {
        sliced_product<Tile>(stream, op, weight);
    } else {
        wide_product<Tile>(stream, op, weight);
    }
}

}  // namespace outrider::cuda
