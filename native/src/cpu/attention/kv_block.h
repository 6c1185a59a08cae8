// KvBlock: the keys and values of one head in one block of positions; LatentBlock: latent vectors, which are both.
#pragma once

#include "cpu/vec/vec.h"
#include "outrider/device/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Keys are stored with neighbouring positions side by side, so that a query's scores fill a vector without
/// sums across lanes; values with neighbouring dimensions side by side, padded to whole vectors.
template <typename T>
struct KvBlock {
    using Number = T;
    T* keys;              // [head_dim, kBlockSize]
    T* values;            // [kBlockSize, value_stride]
    float* key_scales;    // [kBlockSize], only int8
    float* value_scales;  // [kBlockSize], only int8
    int64_t head_dim;
    int64_t value_stride;
    int64_t value_width;  // whole vectors
    int64_t ahead = 0;    // distance to the next block to read, in bytes

    void find_ahead(const KvBlock& next) {
        ahead = reinterpret_cast<const char*>(next.keys) - reinterpret_cast<const char*>(keys);
    }
    /// Prefetches the data at the same place in the next block.
    OUTRIDER_INLINE void fetch_ahead(const T* place) const {
        __builtin_prefetch(reinterpret_cast<const char*>(place) + ahead);
    }
};

/// Each position's latent vector, and after it the part of the key that turns, each in whole vectors.
template <typename T>
struct LatentBlock {
    using Number = T;
    T* values;            // [kBlockSize, value_stride]
    float* value_scales;  // [kBlockSize], only int8: of the latent vectors
    float* turn_scales;   // [kBlockSize], only int8: of the parts that turn
    int64_t value_stride;
    int64_t value_width;  // of the latent vectors
    int64_t ahead = 0;

    void find_ahead(const LatentBlock& next) {
        ahead = reinterpret_cast<const char*>(next.values) - reinterpret_cast<const char*>(values);
    }
    OUTRIDER_INLINE void fetch_ahead(const T* place) const {
        __builtin_prefetch(reinterpret_cast<const char*>(place) + ahead);
    }
};

template <typename T>
constexpr bool kHasScales = false;
template <>
constexpr bool kHasScales<int8_t> = true;

OUTRIDER_INLINE int64_t whole_vectors(int64_t width) {
    return (width + kLanes - 1) / kLanes * kLanes;
}

/// The numbers of a position's row.
OUTRIDER_INLINE int64_t latent_stride(const KvLayer& layer) {
    return whole_vectors(layer.latent_rank) + whole_vectors(layer.head_dim - layer.latent_rank);
}

/// The bytes of one head's block.
template <typename T>
OUTRIDER_INLINE int64_t head_bytes(const KvLayer& layer) {
    const int64_t scales = kHasScales<T> ? 2 * kBlockSize : 0;
    const int64_t width =
        layer.latent_rank > 0 ? latent_stride(layer) : layer.head_dim + whole_vectors(layer.head_dim);
    return kBlockSize * width * static_cast<int64_t>(sizeof(T)) +
           scales * static_cast<int64_t>(sizeof(float));
}

inline int64_t kv_block_bytes(const KvLayer& layer) {
    switch (layer.format) {
        case KvFormat::f32:
            return layer.num_kv_heads * head_bytes<float>(layer);
        case KvFormat::bf16:
            return layer.num_kv_heads * head_bytes<BFloat16>(layer);
        default:
            return layer.num_kv_heads * head_bytes<int8_t>(layer);
    }
}

template <typename T>
OUTRIDER_INLINE KvBlock<T> find_block(const KvLayer& cache, int64_t block, int64_t head) {
    const int64_t dim = cache.head_dim;
    char* bytes = static_cast<char*>(cache.data) + (block * cache.num_kv_heads + head) * head_bytes<T>(cache);
    T* keys = reinterpret_cast<T*>(bytes);
    T* values = keys + kBlockSize * dim;
    auto* scales = reinterpret_cast<float*>(values + kBlockSize * whole_vectors(dim));
    return {keys, values, scales, scales + kBlockSize, dim, whole_vectors(dim), whole_vectors(dim)};
}

template <typename T>
OUTRIDER_INLINE LatentBlock<T> find_latents(const KvLayer& cache, int64_t block) {
    const int64_t stride = latent_stride(cache);
    T* values = reinterpret_cast<T*>(static_cast<char*>(cache.data) + block * head_bytes<T>(cache));
    auto* scales = reinterpret_cast<float*>(values + kBlockSize * stride);
    return {values, scales, scales + kBlockSize, stride, whole_vectors(cache.latent_rank)};
}

}  // namespace outrider::cpu::OUTRIDER_ISA
