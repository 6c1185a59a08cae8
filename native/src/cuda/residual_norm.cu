#include "cuda/normalise.cuh"
#include "cuda/residual_norm.h"
#include "cuda/values.cuh"

namespace outrider::cuda {
namespace {

// Each thread sums its whole row: as long as a product's sum takes, and nothing is shared. What a thread sums
// no other writes, which takes two kernels.

struct AddDelta {
    ResidualNorm op;

    __device__ void operator()(int64_t index) const {
        const int64_t column = index % op.width;
        float value = op.delta[index];
        if (op.delta_norm) {
            value = value * inverse_rms(op.delta + index - column, op.width, op.eps) * op.delta_norm[column];
        }
        op.residual[index] += value;
    }
};

struct NormaliseResidual {
    ResidualNorm op;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / op.width;
        const int64_t column = index % op.width;
        float value = op.residual[index];
        if (op.norm) {
            value = value * inverse_rms(op.residual + row * op.width, op.width, op.eps) * op.norm[column];
        }
        store(op.out.data, op.out.format, row * op.out.stride + column, value);
    }
};

}  // namespace

void residual_norm(const Stream& stream, const ResidualNorm& op) {
    const int64_t count = static_cast<int64_t>(op.rows) * op.width;
    if (op.delta) {
        for_each(stream, count, AddDelta{op});
    }
    for_each(stream, count, NormaliseResidual{op});
}

}  // namespace outrider::cuda
