// KvBlock: the keys and values of one head in one block of positions.
#pragma once

#include "cpu/vec/vec.h"
#include "outrider/device/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Keys are stored with neighbouring positions side by side, so that a query's scores fill a vector without
/// sums across lanes; values with neighbouring dimensions side by side, padded to whole vectors.
template <typename T>
struct KvBlock {
    T* keys;              // [head_dim, kBlockSize]
    T* values;            // [kBlockSize, value_stride]
    float* key_scales;    // [kBlockSize], only int8
    float* value_scales;  // [kBlockSize], only int8
    int64_t head_dim;
    int64_t value_stride;
    int64_t ahead = 0;  // distance to the next block to read, in bytes

    void find_ahead(const KvBlock& next) {
        ahead = reinterpret_cast<const char*>(next.keys) - reinterpret_cast<const char*>(keys);
    }
    /// Prefetches the data at the same place in the next block.
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

/// The bytes of one head's block.
template <typename T>
OUTRIDER_INLINE int64_t head_bytes(int64_t head_dim) {
    const int64_t scales = kHasScales<T> ? 2 * kBlockSize : 0;
    return kBlockSize * (head_dim + whole_vectors(head_dim)) * static_cast<int64_t>(sizeof(T)) +
           scales * static_cast<int64_t>(sizeof(float));
}

inline int64_t kv_block_bytes(KvFormat format, int num_kv_heads, int head_dim) {
    switch (format) {
        case KvFormat::f32:
            return num_kv_heads * head_bytes<float>(head_dim);
        case KvFormat::bf16:
            return num_kv_heads * head_bytes<BFloat16>(head_dim);
        default:
            return num_kv_heads * head_bytes<int8_t>(head_dim);
    }
}

template <typename T>
OUTRIDER_INLINE KvBlock<T> find_block(const KvLayer& cache, int64_t block, int64_t head) {
    const int64_t dim = cache.head_dim;
    char* bytes = static_cast<char*>(cache.data) + (block * cache.num_kv_heads + head) * head_bytes<T>(dim);
    T* keys = reinterpret_cast<T*>(bytes);
    T* values = keys + kBlockSize * dim;
    auto* scales = reinterpret_cast<float*>(values + kBlockSize * whole_vectors(dim));
    return {keys, values, scales, scales + kBlockSize, dim, whole_vectors(dim)};
}

}  // namespace outrider::cpu::OUTRIDER_ISA
