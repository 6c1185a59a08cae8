// Rotary position embedding (Su et al., arXiv 2104.09864) and the write into the KV cache.
#include "cuda/attention/kv_block.cuh"
#include "cuda/attention/rotary.h"
#include "cuda/elementwise/normalise.cuh"
#include "cuda/primitives/launch.cuh"
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

/// One head of queries or keys, or all of them as one, normalised in place.
struct NormaliseHeads {
    RotateAndStore op;
    int num_spans;  // of a row: its heads, or two

    __device__ void operator()(int64_t index) const {
        const int64_t head_dim = op.cache.head_dim;
        const int64_t span = index % num_spans;
        float* row = op.qkv + index / num_spans * num_heads_of_row(op) * head_dim;
        if (op.qk_norm == QkNorm::head) {
            normalise(row + span * head_dim, head_dim, span < op.num_heads ? op.q_norm : op.k_norm);
        } else if (span == 0) {
            normalise(row, op.num_heads * head_dim, op.q_norm);
        } else {
            normalise(row + op.num_heads * head_dim, op.cache.num_kv_heads * head_dim, op.k_norm);
        }
    }

    __device__ void normalise(float* values, int64_t width, const float* weight) const {
        const float factor = inverse_rms(values, width, op.eps);
        for (int64_t column = 0; column < width; ++column) {
            values[column] = values[column] * factor * weight[column];
        }
    }
};

/// One dimension of one head, with that which turns with it: dimension i turns with i + half_dim.
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

/// One head's key or value in a format with scales, the largest magnitude becoming the format's. One that is
/// not finite has a scale that is NaN, so that what is computed from it is NaN too.
struct QuantiseHead {
    RotateAndStore op;

    __device__ void operator()(int64_t index) const {
        const int num_heads = 2 * op.cache.num_kv_heads;
        const int head = static_cast<int>(index % num_heads);
        const int64_t row = index / num_heads;
        const int position = op.places.positions[row];
        if (position == kInactive) {
            return;
        }
        const float* values = op.qkv + (row * num_heads_of_row(op) + op.num_heads + head) * op.cache.head_dim;
        float largest = 0.0f;
        bool is_finite = true;
        for (int dim = 0; dim < op.cache.head_dim; ++dim) {
            const float magnitude = values[dim] < 0.0f ? -values[dim] : values[dim];
            largest = magnitude > largest ? magnitude : largest;
            is_finite = is_finite && magnitude < bit_cast<float>(0x7F800000u);
        }
        const bool is_key = head < op.cache.num_kv_heads;
        const KvBlock block = find_block(op.cache, table_of(op.places, row)[position / kBlockSize],
                                         head % op.cache.num_kv_heads);
        constexpr float kSmallest = 1e-30f;  // below it the factor could be infinite
        const float factor = is_finite && largest > kSmallest ? block.largest() / largest : 0.0f;
        const int slot = position % kBlockSize;
        const float scale = factor > 0.0f ? largest / block.largest() : 0.0f;
        block.set_scale(is_key, slot, is_finite ? scale : bit_cast<float>(0x7FC00000u));
        for (int dim = 0; dim < op.cache.head_dim; ++dim) {
            block.set_scaled(is_key, slot, dim, factor != 0.0f ? values[dim] : 0.0f, factor);
        }
    }
};

}  // namespace

void rotary_angles(const Stream& stream, const RotaryAngles& op) {
    for_each(stream, static_cast<int64_t>(op.rows) * op.half_dim, RotaryAngle{op});
}

void rotate_and_store(const Stream& stream, const RotateAndStore& op) {
    const int64_t rows = op.places.rows;
    if (op.qk_norm != QkNorm::none) {
        const int num_spans = op.qk_norm == QkNorm::head ? op.num_heads + op.cache.num_kv_heads : 2;
        for_each(stream, rows * num_spans, NormaliseHeads{op, num_spans});
    }
    const int64_t num_heads = op.num_heads + 2 * op.cache.num_kv_heads;
    for_each(stream, rows * num_heads * op.cache.head_dim, RotateAndStoreValue{op});
    if (has_scales(op.cache.format)) {
        for_each(stream, rows * 2 * op.cache.num_kv_heads, QuantiseHead{op});
    }
}

}  // namespace outrider::cuda
