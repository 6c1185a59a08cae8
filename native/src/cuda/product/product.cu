#include "cuda/primitives/launch.cuh"
#include "cuda/product/product.h"
#include "cuda/values/values.cuh"

namespace outrider::cuda {
namespace {

/// One output in float32, its sum along K in order. A warp is one row's strip of columns, and the rows of one
/// strip follow one another, so that they find its weights in the nearest caches.
struct ProductValue {
    Product op;
    WeightView weight;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / kWarp % op.rows;
        const int64_t column = index / kWarp / op.rows * kWarp + index % kWarp;
        if (column >= weight.out_features) {
            return;
        }
        const auto* weights = reinterpret_cast<const float*>(weight.data) + column;
        float sum = 0.0f;
        for (int64_t k = 0; k < weight.in_features; ++k) {
            sum = fmaf(load(op.input.data, op.input.format, row * op.input.stride + k),
                       weights[k * weight.out_features], sum);
        }
        op.out[row * op.out_stride + column] = op.bias ? sum + op.bias[column] : sum;
    }
};

void product_f32(const Stream& stream, const Product& op, const WeightView& weight) {
    const int64_t columns = (weight.out_features + kWarp - 1) / kWarp * kWarp;
    for_each(stream, columns * op.rows, ProductValue{op, weight});
}

}  // namespace

void product(const Stream& stream, const Product& op, const WeightView& weight) {
    switch (weight.format) {
        case WeightFormat::f32:
            return product_f32(stream, op, weight);
        case WeightFormat::bf16:
            return product_bf16(stream, op, weight);
        case WeightFormat::int8:
            return product_int8(stream, op, weight);
        case WeightFormat::int4:
            return product_int4(stream, op, weight);
        case WeightFormat::fp8:
            return product_fp8(stream, op, weight);
    }
}

}  // namespace outrider::cuda
