// PrepareTokens: what each token gives to the states, which does not depend on them: convolved queries and keys of
// length 1, convolved values, and its rates and decays.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/reduce.cuh"
#include "cuda/recurrence/delta_rule.h"
#include "cuda/recurrence/state_tokens.cuh"
#include "cuda/values/elementary.cuh"
#include "recurrence/delta_gates.h"

namespace outrider::cuda {

/// A warp computes one head of a token; a lane has every 32nd of its columns. The first blocks have the pass's rows;
/// each block after them has a head of all tokens that one sequence's ring holds since its stored state.
struct PrepareTokens {
    static constexpr int kThreads = 128;
    static constexpr int kBlocksPerMultiprocessor = 6;
    static constexpr int kWarps = kThreads / kWarp;
    static constexpr int kMostColumns = kMostStateDim / kWarp;
    static constexpr bool kIsReferenced = true;

    DeltaRule op;

    __host__ __device__ int64_t heads() const { return 2 * op.shape.key_heads + op.shape.value_heads; }
    __host__ __device__ int64_t row_blocks() const {
        return (op.places.rows * heads() + kWarps - 1) / kWarps;
    }
    __host__ __device__ int64_t blocks() const { return row_blocks() + op.sequences * heads(); }

    __device__ void operator()(const Block& block) const {
        const bool is_row = block.index < row_blocks();
        const int64_t index = is_row ? block.index * kWarps + block.warp() : block.index - row_blocks();
        const auto place = static_cast<int>(index / heads());  // row, or sequence
        if (is_row && (place >= op.places.rows || op.places.positions[place] == kInactive)) {
            return;
        }
        const StateTokens tokens(op, is_row ? op.places.sequences[place] : place);
        int position = is_row ? op.places.positions[place] : tokens.place().position + block.warp();
        const int end = is_row ? position + 1 : tokens.start();  // kInactive without rows
        for (; position < end; position += kWarps) {
            prepare(block, tokens, position, static_cast<int>(index % heads()));
        }
    }

    /// Heads are those of queries, of keys, and then of values.
    __device__ void prepare(const Block& block, const StateTokens& tokens, int position, int head) const {
        const DeltaShape& shape = op.shape;
        const int value_head = head - 2 * shape.key_heads;
        const bool is_value = value_head >= 0;
        const int size = is_value ? shape.value_dim : shape.key_dim;
        const int64_t first =
            is_value ? 2 * shape.key_size() + int64_t{value_head} * size : int64_t{head} * size;
        float values[kMostColumns];
        convolve(block, tokens, position, first, size, values);
        float* const to = tokens.prepared(position);
        const float factor = is_value ? 1.0f : inverse_length(values);
        const float scale = head < shape.key_heads ? 1.0f / sqrtf(static_cast<float>(size)) : 1.0f;
#pragma unroll
        for (int i = 0; i < kMostColumns; ++i) {
            const int column = i * kWarp + block.lane();
            if (column < size) {
                to[first + column] = is_value ? values[i] : values[i] * factor * scale;
            }
        }
        if (is_value && block.lane() == 0) {
            write_gates(tokens, position, value_head, to + shape.channels() + value_head * kGateFloats);
        }
    }

    /// silu(sum of taps * inputs), oldest first; inputs before position 0 count as zero. Zeros beyond the head.
    __device__ void convolve(const Block& block, const StateTokens& tokens, int position, int64_t first,
                             int size, float (&values)[kMostColumns]) const {
        const DeltaShape& shape = op.shape;
        const int before = position - (shape.taps - 1);
#pragma unroll
        for (float& value : values) {
            value = 0.0f;
        }
        for (int tap = before < 0 ? -before : 0; tap < shape.taps; ++tap) {
            const float* inputs = tokens.channels(before + tap) + first;
            const float* weights = op.taps + tap * int64_t{shape.channels()} + first;
#pragma unroll
            for (int i = 0; i < kMostColumns; ++i) {
                const int column = i * kWarp + block.lane();
                if (column < size) {
                    values[i] = fmaf(weights[column], inputs[column], values[i]);
                }
            }
        }
#pragma unroll
        for (float& value : values) {
            value = silu(value);
        }
    }

    __device__ static float inverse_length(const float (&values)[kMostColumns]) {
        constexpr float kEps = 1e-6f;
        float sum = 0.0f;
#pragma unroll
        for (const float value : values) {
            sum = fmaf(value, value, sum);
        }
        return 1.0f / sqrtf(reduce_warp(sum, Sum()) + kEps);
    }

    /// Those of a token in the ring were computed when it was in a pass.
    __device__ void write_gates(const StateTokens& tokens, int position, int head, float* to) const {
        const int heads = op.shape.value_heads;
        if (position < tokens.start()) {
            const float* gates = tokens.channels(position) + op.shape.channels();
            to[0] = gates[head];
            to[1] = gates[heads + head];
        } else {
            const float* gates = op.gates + tokens.row_of(position) * 2 * heads;
            to[0] = delta_rate(gates[head]);
            to[1] =
                delta_decay(op.decay_log[head], double{gates[heads + head]} + double{op.decay_bias[head]});
        }
    }
};

}  // namespace outrider::cuda
