#include <algorithm>

#include "cuda/elementwise/elementwise.h"
#include "cuda/primitives/launch.cuh"
#include "cuda/product/float_product.cuh"
#include "cuda/product/group_shape.h"
#include "cuda/product/product.h"
#include "cuda/product/wide_shape.h"

namespace outrider::cuda {
namespace {

/// Computes one float32 output. A warp computes a strip of one row's columns; the rows of one strip are
/// consecutive, so that they find its weights in the caches.
struct ProductValue {
    Product op;
    WeightView weight;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / kWarp % op.rows;
        const int64_t column = index / kWarp / op.rows * kWarp + index % kWarp;
        if (column < weight.out_features) {
            write_product(op, weight, row, column);
        }
    }
};

void product_f32(const Stream& stream, const Product& op, const WeightView& weight) {
    const int64_t columns = (weight.out_features + kWarp - 1) / kWarp * kWarp;
    for_each(stream, columns * op.rows, ProductValue{op, weight});
}

void product_of_format(const Stream& stream, const Product& op, const WeightView& weight,
                       const Activate* activate) {
    switch (weight.format) {
        case WeightFormat::f32:
            return product_f32(stream, op, weight);
        case WeightFormat::bf16:
            return product_bf16(stream, op, weight, activate);
        case WeightFormat::int8:
            return product_int8(stream, op, weight, activate);
        case WeightFormat::int4:
            return product_int4(stream, op, weight, activate);
        case WeightFormat::fp8:
            return product_fp8(stream, op, weight, activate);
    }
}

}  // namespace

size_t product_scratch(const Stream& stream, int rows, int out_features, int in_features) {
    const size_t cut = cut_scratch(stream.multiprocessors(), rows, out_features);
    return stream.multiplies_in_groups()
               ? std::max(cut, group_scratch(stream.multiprocessors(), rows, in_features))
               : cut;
}

void product(const Stream& stream, const Product& op, const WeightView& weight) {
    product_of_format(stream, op, weight, nullptr);
}

void activated_product(const Stream& stream, const Product& op, const WeightView& weight,
                       const Activate& activate) {
    const bool is_one_kernel = weight.format != WeightFormat::f32 && op.rows <= kMostSlicedRows &&
                               activate.is_gated && activate.width % kTileFeatures == 0;
    if (is_one_kernel) {
        product_of_format(stream, op, weight, &activate);
    } else {
        product(stream, op, weight);
        cuda::activate(stream, activate);
    }
}

}  // namespace outrider::cuda
