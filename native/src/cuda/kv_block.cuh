// KvBlock: one head's keys and values of one block of positions.
#pragma once

#include <cstdint>

#include "cuda/values.cuh"
#include "outrider/operations.h"

namespace outrider::cuda {

/// Keys have their positions side by side, values their dimensions.
struct KvBlock {
    char* bytes;  // [keys, values]: [head_dim, kBlockSize], [kBlockSize, head_dim]; of int8, [2, kBlockSize]
                  // scales
    KvFormat format;
    int head_dim;

    template <KvFormat kFormat>
    __device__ float key(int slot, int dim) const {
        return value_at<kFormat>(dim * kBlockSize + slot);
    }
    template <KvFormat kFormat>
    __device__ float value(int slot, int dim) const {
        return value_at<kFormat>((kBlockSize + slot) * head_dim + dim);
    }
    /// What keys, or else values, of a slot are multiplied by.
    template <KvFormat kFormat>
    __device__ float scale(bool of_key, int slot) const {
        return kFormat == KvFormat::int8 ? scales()[(of_key ? 0 : kBlockSize) + slot] : 1.0f;
    }

    __device__ void set(bool is_key, int slot, int dim, float value) const {
        const int index = is_key ? dim * kBlockSize + slot : (kBlockSize + slot) * head_dim + dim;
        if (format == KvFormat::int8) {
            reinterpret_cast<int8_t*>(bytes)[index] = static_cast<int8_t>(value);
        } else {
            store(bytes, format == KvFormat::f32 ? Format::f32 : Format::bf16, index, value);
        }
    }
    __device__ void set_scale(bool of_key, int slot, float scale) const {
        scales()[(of_key ? 0 : kBlockSize) + slot] = scale;
    }

  private:
    template <KvFormat kFormat>
    __device__ float value_at(int index) const {
        if (kFormat == KvFormat::int8) {
            return static_cast<float>(reinterpret_cast<const int8_t*>(bytes)[index]);
        }
        return load(bytes, kFormat == KvFormat::f32 ? Format::f32 : Format::bf16, index);
    }
    __device__ float* scales() const {
        return reinterpret_cast<float*>(bytes + int64_t{2} * kBlockSize * head_dim);
    }
};

/// Blocks follow one another with all their heads.
__device__ inline KvBlock find_block(const KvLayer& cache, int64_t block, int64_t head) {
    const int64_t head_bytes = 2 * kBlockSize * kv_bytes(cache.format, cache.head_dim);
    return {static_cast<char*>(cache.data) + (block * cache.num_kv_heads + head) * head_bytes, cache.format,
            cache.head_dim};
}

/// The blocks of a row's sequence.  # [max_blocks]
__device__ inline const int32_t* table_of(const RowPlaces& places, int64_t row) {
    return places.block_tables + static_cast<int64_t>(places.sequences[row]) * places.max_blocks;
}

}  // namespace outrider::cuda
