// Rotary position embedding (Su et al., arXiv 2104.09864) and the write into the KV cache.
#include "cuda/attention/attention.h"
#include "cuda/attention/kv_block.cuh"
#include "cuda/elementwise/normalise.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/rotary/quantise.cuh"
#include "cuda/rotary/rotary.h"
#include "cuda/values/elementary.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {
namespace {

struct RotaryAngle {
    RotaryAngles op;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / op.half_dim;
        const int64_t pair = index % op.half_dim;
        const float angle = static_cast<float>(op.positions[row]) * op.frequencies[pair];
        const SineCosine both = sine_cosine(angle);
        float* cosines = op.out + row * 2 * op.half_dim;
        cosines[pair] = static_cast<float>(both.cosine) * op.scale;
        cosines[op.half_dim + pair] = static_cast<float>(both.sine) * op.scale;
    }
};

__device__ inline int64_t num_heads_of_row(const RotateAndStore& op) {
    return op.num_heads + 2 * op.cache.num_kv_heads;
}

/// Copies keys to where values are read.
struct CopyKey {
    RotateAndStore op;

    __device__ void operator()(int64_t index) const {
        const int64_t width = int64_t{op.cache.num_kv_heads} * op.cache.head_dim;
        const int64_t first = index / width * num_heads_of_row(op) + op.num_heads;
        float* keys = op.qkv + first * op.cache.head_dim + index % width;
        keys[width] = *keys;
    }
};

/// Normalises one head of queries, keys or values in place, by a warp that keeps kColumns columns per lane. The number
/// of columns changes no bit.
template <int kColumns>
struct NormaliseHeads {
    static constexpr int kThreads = 256;
    static constexpr int kBlocksPerMultiprocessor = 4;
    static constexpr int kWarps = kThreads / kWarp;

    RotateAndStore op;

    __device__ void operator()(const Block& block) const {
        const int64_t normalised = heads_of_row(op);
        const int64_t index = block.index * kWarps + block.warp();
        if (index >= op.places.rows * normalised) {
            return;
        }
        const int64_t head = index % normalised;
        const int head_dim = op.cache.head_dim;
        float* values = op.qkv + (index / normalised * num_heads_of_row(op) + head) * head_dim;
        const float* weights = weights_of(head);
        float own[kColumns];
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            const int column = i * kWarp + block.lane();
            own[i] = column < head_dim ? values[column] : 0.0f;
        }
        if (op.norm_kind == NormKind::layer && head < op.num_heads + op.cache.num_kv_heads) {
            take_off_mean(block, own);
        }
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            sum = fmaf(own[i], own[i], sum);
        }
        const float factor = inverse_rms(reduce_warp(sum, Sum()), head_dim, op.eps);
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            const int column = i * kWarp + block.lane();
            if (column < head_dim) {
                values[column] = own[i] * factor * weights[column];
            }
        }
    }

    /// The heads of a row that are normalised.
    static OUTRIDER_HOST_DEVICE int64_t heads_of_row(const RotateAndStore& op) {
        return op.num_heads + (op.v_norm ? 2 : 1) * op.cache.num_kv_heads;
    }

    __device__ const float* weights_of(int64_t head) const {
        if (head >= op.num_heads + op.cache.num_kv_heads) {
            return op.v_norm;
        }
        const int64_t of_kind = head < op.num_heads ? head : head - op.num_heads;
        const int64_t first = op.qk_norm == QkNorm::each ? of_kind * op.cache.head_dim : 0;
        return (head < op.num_heads ? op.q_norm : op.k_norm) + first;
    }

    /// Subtracts the mean; values beyond the head stay zero.
    __device__ void take_off_mean(const Block& block, float (&own)[kColumns]) const {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            sum += own[i];
        }
        const float mean = reduce_warp(sum, Sum()) / static_cast<float>(op.cache.head_dim);
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            own[i] = i * kWarp + block.lane() < op.cache.head_dim ? own[i] - mean : 0.0f;
        }
    }
};

/// Normalises all heads of a row's queries, or of its keys, in place as one vector, by a block.
struct NormaliseAllHeads {
    static constexpr int kThreads = 256;
    static constexpr int kBlocksPerMultiprocessor = 4;

    RotateAndStore op;

    __device__ void operator()(const Block& block) const {
        const bool of_keys = block.index % 2 != 0;
        const int64_t head_dim = op.cache.head_dim;
        const int64_t first = block.index / 2 * num_heads_of_row(op) + (of_keys ? op.num_heads : 0);
        const int64_t width = (of_keys ? op.cache.num_kv_heads : op.num_heads) * head_dim;
        float* values = op.qkv + first * head_dim;
        const float* weights = of_keys ? op.k_norm : op.q_norm;
        float sum = 0.0f;
#pragma unroll 8
        for (int64_t column = block.thread; column < width; column += kThreads) {
            sum = fmaf(values[column], values[column], sum);
        }
        const float factor = inverse_rms(sum_of_block<kThreads>(block, sum), width, op.eps);
#pragma unroll 8
        for (int64_t column = block.thread; column < width; column += kThreads) {
            values[column] = values[column] * factor * weights[column];
        }
    }
};

/// Rotates and stores one dimension of one head, together with its partner: dimension i rotates with i +
/// half_dim.
struct RotateAndStoreValue {
    RotateAndStore op;

    __device__ void operator()(int64_t index) const {
        const int64_t head_dim = op.cache.head_dim;
        const int64_t dim = index % head_dim;
        const int64_t head = index / head_dim % num_heads_of_row(op);
        const int64_t row = index / head_dim / num_heads_of_row(op);
        float* values = op.qkv + index - dim;
        if (head >= op.num_heads + op.cache.num_kv_heads || dim >= 2 * op.half_dim) {
            finish(row, head, dim, values[dim], values);
        } else if (dim < op.half_dim) {
            const float* cosines = op.angles + row * 2 * op.half_dim;
            const float cosine = cosines[dim];
            const float sine = cosines[op.half_dim + dim];
            const float low = values[dim];
            const float high = values[op.half_dim + dim];
            finish(row, head, dim, fmaf(low, cosine, -(high * sine)), values);
            finish(row, head, op.half_dim + dim, fmaf(high, cosine, low * sine), values);
        }
    }

    __device__ void finish(int64_t row, int64_t head, int64_t dim, float value, float* values) const {
        if (head < op.num_heads) {
            values[dim] = value * op.query_scale;
            return;
        }
        values[dim] = value;
        const int64_t position = op.places.positions[row];
        if (position == kInactive || has_scales(op.cache.format)) {
            return;
        }
        const int64_t kv_head = (head - op.num_heads) % op.cache.num_kv_heads;
        const KvBlock block = find_block(op.cache, table_of(op.places, row)[position / kBlockSize], kv_head);
        const bool is_key = head < op.num_heads + op.cache.num_kv_heads;
        block.set(is_key, static_cast<int>(position % kBlockSize), static_cast<int>(dim), value);
    }
};

/// Quantises one head's key or value for a format with scales, by a warp.
template <int kColumns>
struct QuantiseHead {
    static constexpr int kThreads = 256;
    static constexpr int kBlocksPerMultiprocessor = 4;
    static constexpr int kWarps = kThreads / kWarp;

    RotateAndStore op;

    __device__ void operator()(const Block& block) const {
        const int num_heads = 2 * op.cache.num_kv_heads;
        const int64_t index = block.index * kWarps + block.warp();
        const int64_t row = index / num_heads;
        if (row >= op.places.rows || op.places.positions[row] == kInactive) {
            return;
        }
        const int head = static_cast<int>(index % num_heads);
        const int head_dim = op.cache.head_dim;
        const float* values = op.qkv + (row * num_heads_of_row(op) + op.num_heads + head) * head_dim;
        float own[kColumns];
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            const int column = i * kWarp + block.lane();
            own[i] = column < head_dim ? values[column] : 0.0f;
        }
        const int position = op.places.positions[row];
        const bool is_key = head < op.cache.num_kv_heads;
        const KvBlock kv = find_block(op.cache, table_of(op.places, row)[position / kBlockSize],
                                      head % op.cache.num_kv_heads);
        store_quantised(block, kv, is_key, is_key, position % kBlockSize, 0, head_dim, own);
    }
};

template <typename Kernel>
int64_t blocks_for(int64_t warps) {
    return (warps + Kernel::kWarps - 1) / Kernel::kWarps;
}

/// With kernels for heads of up to so many columns per lane.
template <int kColumns>
void rotate_and_store(const Stream& stream, const RotateAndStore& op) {
    using Normalise = NormaliseHeads<kColumns>;
    using Quantise = QuantiseHead<kColumns>;
    const int64_t rows = op.places.rows;
    if (op.values_are_keys) {
        for_each(stream, rows * op.cache.num_kv_heads * op.cache.head_dim, CopyKey{op});
    }
    if (op.qk_norm == QkNorm::head || op.qk_norm == QkNorm::each) {
        const int64_t heads = rows * Normalise::heads_of_row(op);
        for_each_block(stream, blocks_for<Normalise>(heads), 0, Normalise{op});
    } else if (op.qk_norm == QkNorm::full) {
        constexpr size_t kSumBytes = NormaliseAllHeads::kThreads / kWarp * sizeof(float);
        for_each_block(stream, 2 * rows, kSumBytes, NormaliseAllHeads{op});
    }
    const int64_t num_heads = op.num_heads + 2 * op.cache.num_kv_heads;
    for_each(stream, rows * num_heads * op.cache.head_dim, RotateAndStoreValue{op});
    if (has_scales(op.cache.format) && op.cache.num_kv_heads > 0) {
        const int64_t heads = rows * 2 * op.cache.num_kv_heads;
        for_each_block(stream, blocks_for<Quantise>(heads), 0, Quantise{op});
    }
}

}  // namespace

void rotary_angles(const Stream& stream, const RotaryAngles& op) {
    for_each(stream, static_cast<int64_t>(op.rows) * op.half_dim, RotaryAngle{op});
}

void rotate_and_store(const Stream& stream, const RotateAndStore& op) {
    if (op.cache.head_dim <= kMaxHeadDim / 2) {
        rotate_and_store<kMaxHeadDim / 2 / kWarp>(stream, op);
    } else {
        rotate_and_store<kMaxHeadDim / kWarp>(stream, op);
    }
}

}  // namespace outrider::cuda
