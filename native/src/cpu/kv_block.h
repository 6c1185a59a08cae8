// KvBlock: one head's keys and values of one block of positions.
#pragma once

#include "cpu/vec.h"
#include "outrider/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Keys have their positions side by side, so that a query's scores fill a vector without sums across lanes;
/// values have their dimensions side by side, padded to whole vectors.
template <typename T>
struct KvBlock {
    T* keys;    // [head_dim, kBlockSize]
    T* values;  // [kBlockSize, value_stride]
    int64_t head_dim;
    int64_t value_stride;
};

OUTRIDER_INLINE int64_t whole_vectors(int64_t width) {
    return (width + kLanes - 1) / kLanes * kLanes;
}

inline int64_t kv_block_values(int num_kv_heads, int head_dim) {
    return num_kv_heads * kBlockSize * (head_dim + whole_vectors(head_dim));
}

template <typename T>
OUTRIDER_INLINE KvBlock<T> find_block(const KvLayer& cache, int64_t block, int64_t head) {
    T* keys = static_cast<T*>(cache.data) +
              (block * cache.num_kv_heads + head) * kv_block_values(1, cache.head_dim);
    return {keys, keys + kBlockSize * cache.head_dim, cache.head_dim, whole_vectors(cache.head_dim)};
}

}  // namespace outrider::cpu::OUTRIDER_ISA
