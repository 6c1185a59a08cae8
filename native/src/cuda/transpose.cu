#include "cuda/transpose.h"
#include "cuda/values.cuh"

namespace outrider::cuda {
namespace {

struct TransposeValue {
    const float* values;
    WeightView weight;
    int64_t rows;
    int64_t first_row;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index % rows;
        const int64_t k = index / rows;
        const float value = values[row * weight.in_features + k];
        store(weight.data, weight.format, k * weight.out_features + first_row + row, value);
    }
};

}  // namespace

void transpose(const Stream& stream, const float* values, int64_t rows, const WeightView& weight,
               int64_t first_row) {
    for_each(stream, rows * weight.in_features, TransposeValue{values, weight, rows, first_row});
}

}  // namespace outrider::cuda
