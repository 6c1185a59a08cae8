// Rotary position embedding (Su et al., arXiv 2104.09864) and the write into the KV cache.
#pragma once

#include "cpu/attention/attention_part.h"
#include "cpu/attention/kv_block.h"
#include "cpu/elementwise/normalise.h"
#include "cpu/product/quantised_row.h"
#include "cpu/vec/elementary.h"
#include "cpu/vec/vec.h"
#include "outrider/device/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

inline void rotary_angles(const RotaryAngles& op, int64_t row) {
    float* cosines = op.out + row * 2 * op.half_dim;
    float* sines = cosines + op.half_dim;
    for (int64_t pair = 0; pair < op.half_dim; ++pair) {
        const float angle = static_cast<float>(op.positions[row]) * op.frequencies[pair];
        const SineCosine both = sine_cosine(angle);
        cosines[pair] = static_cast<float>(both.cosine) * op.scale;
        sines[pair] = static_cast<float>(both.sine) * op.scale;
    }
}

/// Rotates each pair of dimensions i and i + half_dim.
inline void rotate(float* head, const float* cosines, const float* sines, int64_t half_dim) {
    for (int64_t pair = 0; pair < half_dim; pair += kLanes) {
        const int64_t count = half_dim - pair;
        const Vec cosine = load_first(cosines + pair, count);
        const Vec sine = load_first(sines + pair, count);
        const Vec low = load_first(head + pair, count);
        const Vec high = load_first(head + half_dim + pair, count);
        store_first(head + pair, multiply_add(low, cosine, -(high * sine)), count);
        store_first(head + half_dim + pair, multiply_add(high, cosine, low * sine), count);
    }
}

/// Normalises a row's heads, each by itself or all as one vector.
inline void normalise_heads(const RotateAndStore& op, float* heads, int num_heads, const float* weight) {
    const int64_t width = op.cache.head_dim;
    if (op.qk_norm == QkNorm::full) {
        const Normal normal = normal_of(op.norm_kind, heads, num_heads * width, op.eps);
        write_normal(heads, normal, weight, nullptr, heads, num_heads * width);
    } else if (op.qk_norm != QkNorm::none) {
        const int64_t to_next = op.qk_norm == QkNorm::each ? width : 0;
        for (int head = 0; head < num_heads; ++head, heads += width, weight += to_next) {
            const Normal normal = normal_of(op.norm_kind, heads, width, op.eps);
            write_normal(heads, normal, weight, nullptr, heads, width);
        }
    }
}

template <typename T>
inline void store_position(const KvBlock<T>& block, int64_t slot, const float* key, const float* value) {
    for (int64_t dim = 0; dim < block.head_dim; dim += kLanes) {
        const int64_t count = smaller(kLanes, block.head_dim - dim);
        T rounded[kLanes];
        store(rounded, load_first(key + dim, count));
        for (int64_t lane = 0; lane < count; ++lane) {
            block.keys[(dim + lane) * kBlockSize + slot] = rounded[lane];
        }
        store_first(block.values + slot * block.value_stride + dim, load_first(value + dim, count), count);
    }
}

/// Quantises one head's key or value; the padding is zero.
/// # to: [whole_vectors(head_dim)]
OUTRIDER_INLINE float quantise_head(const float* values, int64_t head_dim, int8_t* to) {
    float padded[kMaxHeadDim] = {};
    __builtin_memcpy(padded, values, head_dim * sizeof(float));
    return quantise(padded, whole_vectors(head_dim), to).scale;
}

inline void store_position(const KvBlock<int8_t>& block, int64_t slot, const float* key, const float* value) {
    int8_t rounded[kMaxHeadDim];
    block.key_scales[slot] = quantise_head(key, block.head_dim, rounded);
    for (int64_t dim = 0; dim < block.head_dim; ++dim) {
        block.keys[dim * kBlockSize + slot] = rounded[dim];
    }
    block.value_scales[slot] = quantise_head(value, block.head_dim, block.values + slot * block.value_stride);
}

template <typename T>
inline void store_row(const RotateAndStore& op, int64_t row, const float* keys, const float* values) {
    const int64_t position = op.places.positions[row];
    const int32_t* table =
        op.places.block_tables + op.places.sequences[row] * static_cast<int64_t>(op.places.max_blocks);
    const int64_t block = table[position / kBlockSize];
    for (int head = 0; head < op.cache.num_kv_heads; ++head) {
        const int64_t at = static_cast<int64_t>(head) * op.cache.head_dim;
        store_position(find_block<T>(op.cache, block, head), position % kBlockSize, keys + at, values + at);
    }
}

inline void rotate_and_store(const RotateAndStore& op, int64_t row) {
    const int64_t head_dim = op.cache.head_dim;
    float* queries = op.qkv + row * (op.num_heads + 2 * op.cache.num_kv_heads) * head_dim;
    float* keys = queries + op.num_heads * head_dim;
    float* values = keys + op.cache.num_kv_heads * head_dim;
    const float* cosines = op.angles + row * 2 * op.half_dim;
    const float* sines = cosines + op.half_dim;

    const int64_t kv_size = op.cache.num_kv_heads * head_dim;
    if (op.values_are_keys) {
        __builtin_memcpy(values, keys, kv_size * sizeof(float));
    }
    normalise_heads(op, queries, op.num_heads, op.q_norm);
    normalise_heads(op, keys, op.cache.num_kv_heads, op.k_norm);
    if (op.v_norm) {
        for (float* head = values; head < values + kv_size; head += head_dim) {
            write_normal(head, normal_of(NormKind::rms, head, head_dim, op.eps), op.v_norm, nullptr, head,
                         head_dim);
        }
    }
    for (float* head = queries; head < values; head += head_dim) {
        rotate(head, cosines, sines, op.half_dim);
    }
    for (int64_t at = 0; at < op.num_heads * head_dim; at += kLanes) {
        const int64_t count = op.num_heads * head_dim - at;
        store_first(queries + at, load_first(queries + at, count) * op.query_scale, count);
    }
    switch (op.cache.format) {
        case KvFormat::f32:
            store_row<float>(op, row, keys, values);
            break;
        case KvFormat::bf16:
            store_row<BFloat16>(op, row, keys, values);
            break;
        default:
            store_row<int8_t>(op, row, keys, values);
    }
}

/// # key: [latent_rank + what turns]
template <typename T>
inline void store_latent(const LatentBlock<T>& block, int64_t slot, const float* key, int64_t rank,
                         int64_t turning) {
    T* row = block.values + slot * block.value_stride;
    if constexpr (kHasScales<T>) {
        block.value_scales[slot] = quantise_head(key, rank, row);
        block.turn_scales[slot] = quantise_head(key + rank, turning, row + block.value_width);
    } else {
        for (int64_t dim = 0; dim < rank; dim += kLanes) {
            store(row + dim, load(key + dim));
        }
        for (int64_t dim = 0; dim < turning; dim += kLanes) {
            store(row + block.value_width + dim, load(key + rank + dim));
        }
    }
}

template <typename T>
inline void store_latent(const StoreLatents& op, int64_t row, const float* key) {
    const int64_t position = op.places.positions[row];
    const int32_t* table =
        op.places.block_tables + op.places.sequences[row] * static_cast<int64_t>(op.places.max_blocks);
    store_latent(find_latents<T>(op.cache, table[position / kBlockSize]), position % kBlockSize, key,
                 op.cache.latent_rank, 2 * op.half_dim);
}

inline void store_latents(const StoreLatents& op, int64_t row) {
    const int64_t width = op.cache.head_dim;
    const int64_t rank = op.cache.latent_rank;
    const int64_t turning = width - rank;
    const float* cosines = op.angles + row * turning;
    const float* sines = cosines + op.half_dim;
    for (int64_t head = 0; head < op.num_heads; ++head) {
        float* query = op.latent_queries + (row * op.num_heads + head) * width;
        const float* from = op.queries + (row * op.num_heads + head + 1) * op.query_dim - turning;
        __builtin_memcpy(query + rank, from, turning * sizeof(float));
        rotate(query + rank, cosines, sines, op.half_dim);
        for (int64_t at = 0; at < width; at += kLanes) {
            store(query + at, load(query + at) * op.query_scale);
        }
    }
    alignas(kCacheLine) float key[kMaxHeadDim + kMostTurning];
    __builtin_memcpy(key, op.compressed + row * width, width * sizeof(float));
    write_normal(key, normal_of(NormKind::rms, key, rank, op.eps), op.norm, nullptr, key, rank);
    rotate(key + rank, cosines, sines, op.half_dim);
    switch (op.cache.format) {
        case KvFormat::f32:
            store_latent<float>(op, row, key);
            break;
        case KvFormat::bf16:
            store_latent<BFloat16>(op, row, key);
            break;
        default:
            store_latent<int8_t>(op, row, key);
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
