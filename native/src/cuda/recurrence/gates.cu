// The gates of a layer's output: the norm of each head times silu, and a sigmoid's share.
#include "cuda/elementwise/normalise.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/recurrence/delta_rule.h"
#include "cuda/values/elementary.cuh"

namespace outrider::cuda {
namespace {

/// A warp computes one head of one row; a lane has every 32nd of its columns.
struct NormaliseHead {
    static constexpr int kThreads = 128;
    static constexpr int kBlocksPerMultiprocessor = 8;

    GatedNorm op;

    int64_t blocks() const {
        constexpr int kWarps = kThreads / kWarp;
        return (int64_t{op.rows} * op.heads + kWarps - 1) / kWarps;
    }

    __device__ void operator()(const Block& block) const {
        const int64_t index = block.index * (kThreads / kWarp) + block.warp();
        if (index >= int64_t{op.rows} * op.heads) {
            return;
        }
        const float* values = op.values + index * op.head_dim;
        const float* gates = op.gates + index * op.head_dim;
        float squares = 0.0f;
        for (int column = block.lane(); column < op.head_dim; column += kWarp) {
            squares = fmaf(values[column], values[column], squares);
        }
        const float factor = inverse_rms(reduce_warp(squares, Sum()), op.head_dim, op.eps);
        const int64_t to = index / op.heads * op.out.stride + index % op.heads * op.head_dim;
        for (int column = block.lane(); column < op.head_dim; column += kWarp) {
            const float value = values[column] * factor * op.norm[column] * silu(gates[column]);
            store(op.out.data, op.out.format, to + column, value);
        }
    }
};

struct GateValue {
    SigmoidGate op;

    __device__ void operator()(int64_t index) const {
        const int64_t at = index / op.width * op.values.stride + index % op.width;
        const float share = 1.0f / (1.0f + exponential(-op.gates[index]));
        const float value = load(op.values.data, op.values.format, at);
        store(op.values.data, op.values.format, at, value * share);
    }
};

}  // namespace

void gated_norm(const Stream& stream, const GatedNorm& op) {
    const NormaliseHead kernel{op};
    for_each_block(stream, kernel.blocks(), 0, kernel);
}

void sigmoid_gate(const Stream& stream, const SigmoidGate& op) {
    for_each(stream, int64_t{op.rows} * op.width, GateValue{op});
}

}  // namespace outrider::cuda
