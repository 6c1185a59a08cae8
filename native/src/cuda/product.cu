#include "cuda/product.h"
#include "cuda/values.cuh"

namespace outrider::cuda {
namespace {

int64_t strips_of(const WeightView& weight) {
    return (weight.out_features + kWarp - 1) / kWarp;
}

/// One output, its sum along K in order. A warp is one row's strip of columns, and the rows of one strip
/// follow one another, so that they find its weights in the nearest caches.
struct ProductValue {
    Product op;
    WeightView weight;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / kWarp % op.rows;
        const int64_t column = index / kWarp / op.rows * kWarp + index % kWarp;
        if (column >= weight.out_features) {
            return;
        }
        float sum = 0.0f;
        for (int64_t k = 0; k < weight.in_features; ++k) {
            sum = fmaf(load(op.input.data, op.input.format, row * op.input.stride + k),
                       load(weight.data, weight.format, k * weight.out_features + column), sum);
        }
        op.out[row * weight.out_features + column] = op.bias ? sum + op.bias[column] : sum;
    }
};

}  // namespace

void product(const Stream& stream, const Product& op, const WeightView& weight) {
    for_each(stream, strips_of(weight) * kWarp * op.rows, ProductValue{op, weight});
}

}  // namespace outrider::cuda
