// Layer norm (Ba, Kiros, Hinton, arXiv 1607.06450) after the addition to the residual.
#include "cuda/elementwise/layer_norm.h"
#include "cuda/elementwise/normalise.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {
namespace {

/// A block computes one row. Each thread has the same columns throughout, every kThreads-th, so that no
/// thread reads the writes of another.
struct LayerNormRow {
    static constexpr int kThreads = 256;
    static constexpr int kBlocksPerMultiprocessor = 4;

    ResidualNorm op;

    __device__ void operator()(const Block& block) const {
        float* residual = op.residual + block.index * op.width;
        const float* delta = op.delta ? op.delta + block.index * op.width : nullptr;
        float sum = 0.0f;
        for (int column = block.thread; column < op.width; column += kThreads) {
            residual[column] = delta ? residual[column] + delta[column] : residual[column];
            sum += residual[column];
        }
        const float mean = sum_of_block<kThreads>(block, sum) / static_cast<float>(op.width);
        float squares = 0.0f;
        for (int column = block.thread; column < op.width; column += kThreads) {
            const float distance = residual[column] - mean;
            squares = fmaf(distance, distance, squares);
        }
        const float factor = inverse_rms(sum_of_block<kThreads>(block, squares), op.width, op.eps);
        for (int column = block.thread; column < op.width; column += kThreads) {
            const float value = (residual[column] - mean) * factor * op.norm[column];
            store(op.out.data, op.out.format, block.index * op.out.stride + column,
                  op.norm_bias ? value + op.norm_bias[column] : value);
        }
    }
};

}  // namespace

void layer_norm(const Stream& stream, const ResidualNorm& op) {
    for_each_block(stream, op.rows, LayerNormRow::kThreads / kWarp * sizeof(float), LayerNormRow{op});
}

}  // namespace outrider::cuda
