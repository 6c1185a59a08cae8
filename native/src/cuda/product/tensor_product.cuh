// tensor_product: chooses a matrix product on tensor cores by the number of rows.
#pragma once

#include "cuda/product/group_launch.cuh"
#include "cuda/product/sliced_product.cuh"
#include "cuda/product/wide_launch.cuh"

namespace outrider::cuda {

/// `activate` is the activation of gates and ups, only with few rows, or null.
template <typename Tile>
void tensor_product(const Stream& stream, const Product& op, const WeightView& weight,
                    const Activate* activate) {
    if (activate) {
        gated_product<Tile>(stream, op, weight, *activate);
    } else if (is_sliced(stream, op, weight)) {
        sliced_product<Tile>(stream, op, weight);
    } else if (is_grouped(stream, op)) {
        group_product<Tile>(stream, op, weight);
    } else {
        wide_product<Tile>(stream, op, weight);
    }
}

}  // namespace outrider::cuda
