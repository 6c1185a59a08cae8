// RMSNorm after the addition to the residual; layer norms have their own kernel.
#include "cuda/elementwise/layer_norm.h"
#include "cuda/elementwise/normalise.cuh"
#include "cuda/elementwise/residual_norm.h"
#include "cuda/primitives/instructions.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {
namespace {

/// A block computes one row. Each thread has the same columns throughout, every kThreads-th, so that no
/// thread reads the writes of another; a row's sums are added up lane by lane and then warp by warp,
/// independent of the other rows.
///
/// A thread keeps kColumns columns in registers, and issues all loads before it waits for any of them. A
/// wider row is processed in several rounds.
template <int kColumns>
struct NormaliseRow {
    static constexpr int kThreads = 256;
    static constexpr int kBlocksPerMultiprocessor = kColumns > 16 ? 1 : 2;
    static constexpr int kWidth = kThreads * kColumns;  // columns that are in registers at once
    using WaitsItself = void;

    ResidualNorm op;

    struct Columns {
        float values[kColumns];
    };

    __device__ void operator()(const Block& block) const {
        prefetch_weights(block, op.norm);
        prefetch_weights(block, op.delta_norm);
        wait_for_previous();
        float* residual = op.residual + block.index * op.width;
        const float* delta = op.delta ? op.delta + block.index * op.width : nullptr;
        const float delta_factor = op.delta_norm ? factor_of(block, sum_of_squares(block, delta)) : 1.0f;
        Columns sums = {};
        Columns weights = {};
        float squares = 0.0f;
        const float scale = op.scale ? *op.scale : 1.0f;
        for (int first = 0; first < op.width; first += kWidth) {
            load(block, op.replaces ? nullptr : residual, first, sums);
            load(block, op.norm, first, weights);
            if (delta) {
                add(block, delta, first, delta_factor, scale, sums);
                store_residual(block, residual, first, sums);
            }
            squares = add_squares(sums, squares);
        }
        const float factor = op.norm ? factor_of(block, squares) : 1.0f;
        for (int first = 0; first < op.width; first += kWidth) {
            if (op.width > kWidth) {  // the registers hold the last columns
                load(block, residual, first, sums);
                load(block, op.norm, first, weights);
            }
            store_out(block, first, factor, sums, weights);
        }
    }

    /// Prefetches weights while the values to normalise are still being loaded.
    __device__ void prefetch_weights(const Block& block, const float* weights) const {
        constexpr int kLine = 128 / sizeof(float);
        for (int column = block.thread * kLine; weights && column < op.width; column += kThreads * kLine) {
            prefetch(weights + column);
        }
    }

    /// Loads columns; zeros beyond the row, or if `from` is null.
    __device__ void load(const Block& block, const float* from, int first, Columns& to) const {
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            const int column = first + i * kThreads + block.thread;
            to.values[i] = from && column < op.width ? from[column] : 0.0f;
        }
    }

    __device__ void add(const Block& block, const float* delta, int first, float factor, float scale,
                        Columns& to) const {
        Columns added;
        Columns weights = {};
        load(block, delta, first, added);
        load(block, op.delta_norm, first, weights);
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            to.values[i] += op.delta_norm ? added.values[i] * factor * weights.values[i] : added.values[i];
            to.values[i] *= scale;
        }
    }

    __device__ void store_residual(const Block& block, float* to, int first, const Columns& sums) const {
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            const int column = first + i * kThreads + block.thread;
            if (column < op.width) {
                to[column] = sums.values[i];
            }
        }
    }

    __device__ void store_out(const Block& block, int first, float factor, const Columns& sums,
                              const Columns& weights) const {
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            const int column = first + i * kThreads + block.thread;
            if (column < op.width) {
                const float value = op.norm ? sums.values[i] * factor * weights.values[i] : sums.values[i];
                store(op.out.data, op.out.format, block.index * op.out.stride + column, value);
            }
        }
    }

    __device__ float sum_of_squares(const Block& block, const float* from) const {
        float sum = 0.0f;
        for (int first = 0; first < op.width; first += kWidth) {
            Columns values;
            load(block, from, first, values);
            sum = add_squares(values, sum);
        }
        return sum;
    }

    /// Adds the squares; zeros beyond the row add nothing.
    __device__ static float add_squares(const Columns& columns, float sum) {
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            sum = fmaf(columns.values[i], columns.values[i], sum);
        }
        return sum;
    }

    __device__ float factor_of(const Block& block, float squares) const {
        return inverse_rms(sum_of_block<kThreads>(block, squares), op.width, op.eps);
    }
};

template <int kColumns>
void normalise(const Stream& stream, const ResidualNorm& op) {
    using Kernel = NormaliseRow<kColumns>;
    for_each_block(stream, op.rows, Kernel::kThreads / kWarp * sizeof(float), Kernel{op});
}

}  // namespace

/// Chooses the number of registers by speed only: all choices give the same bits.
void residual_norm(const Stream& stream, const ResidualNorm& op) {
    if (op.norm && op.kind == NormKind::layer) {
        layer_norm(stream, op);
    } else if (op.width <= NormaliseRow<4>::kWidth) {
        normalise<4>(stream, op);
    } else if (op.width <= NormaliseRow<16>::kWidth) {
        normalise<16>(stream, op);
    } else {
        normalise<32>(stream, op);
    }
}

}  // namespace outrider::cuda
