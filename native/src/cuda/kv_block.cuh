// KvBlock: one head's keys and values of one block of positions.
#pragma once

#include <cstdint>

#include "cuda/launch.cuh"
#include "outrider/operations.h"

namespace outrider::cuda {

/// A block is [num_kv_heads][keys, values]: keys [head_dim, kBlockSize], values [kBlockSize, head_dim].
struct KvBlock {
    int64_t first;  // value of the layer
    int64_t head_dim;

    __device__ int64_t key(int64_t slot, int64_t dim) const { return first + dim * kBlockSize + slot; }
    __device__ int64_t value(int64_t slot, int64_t dim) const {
        return first + (kBlockSize + slot) * head_dim + dim;
    }
};

__device__ inline KvBlock find_block(const KvLayer& cache, int64_t block, int64_t head) {
    return {(block * cache.num_kv_heads + head) * 2 * kBlockSize * cache.head_dim, cache.head_dim};
}

/// Of the two that a CUDA device holds.
__device__ inline Format format_of(const KvLayer& cache) {
    return cache.format == KvFormat::f32 ? Format::f32 : Format::bf16;
}

/// The blocks of a row's sequence.  # [max_blocks]
__device__ inline const int32_t* table_of(const RowPlaces& places, int64_t row) {
    return places.block_tables + static_cast<int64_t>(places.sequences[row]) * places.max_blocks;
}

}  // namespace outrider::cuda
