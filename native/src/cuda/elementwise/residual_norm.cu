// RMSNorm (Zhang, Sennrich, arXiv 1910.07467), behind the addition to the residual.
#include <cmath>

#include "cuda/elementwise/residual_norm.h"
#include "cuda/primitives/reduce.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {
namespace {

/// A block has one row. Each of its threads has the same columns throughout, every kThreads-th, so that none
/// reads what another has written; a row's sums are added up lane by lane and then warp by warp, whatever the
/// other rows are.
struct NormaliseRow {
    static constexpr int kThreads = 256;
    static constexpr int kBlocksPerMultiprocessor = 4;
    static constexpr int kWarps = kThreads / kWarp;

    ResidualNorm op;

    __device__ void operator()(const Block& block) const {
        float* residual = op.residual + block.index * op.width;
        if (op.delta) {
            const float* delta = op.delta + block.index * op.width;
            const float factor = op.delta_norm ? inverse_rms(block, delta) : 1.0f;
            for (int column = block.thread; column < op.width; column += kThreads) {
                residual[column] +=
                    op.delta_norm ? delta[column] * factor * op.delta_norm[column] : delta[column];
            }
        }
        const float factor = op.norm ? inverse_rms(block, residual) : 1.0f;
        for (int column = block.thread; column < op.width; column += kThreads) {
            const float value = op.norm ? residual[column] * factor * op.norm[column] : residual[column];
            store(op.out.data, op.out.format, block.index * op.out.stride + column, value);
        }
    }

    /// 1 / sqrt(mean(x^2) + eps)
    __device__ float inverse_rms(const Block& block, const float* values) const {
        auto* sums = reinterpret_cast<float*>(block.shared);
        float sum = 0.0f;
        for (int column = block.thread; column < op.width; column += kThreads) {
            sum = fmaf(values[column], values[column], sum);
        }
        sum = reduce_warp(sum, Sum());
        block.synchronize();  // a sum before this one has been read
        if (block.lane() == 0) {
            sums[block.warp()] = sum;
        }
        block.synchronize();
        float total = 0.0f;
        for (int warp = 0; warp < kWarps; ++warp) {
            total += sums[warp];
        }
        return 1.0f / sqrtf(total / static_cast<float>(op.width) + op.eps);
    }
};

}  // namespace

void residual_norm(const Stream& stream, const ResidualNorm& op) {
    for_each_block(stream, op.rows, NormaliseRow::kWarps * sizeof(float), NormaliseRow{op});
}

}  // namespace outrider::cuda
