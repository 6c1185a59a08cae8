// KvBlock: one head's keys and values of one block of positions.
#pragma once

#include <cstdint>

#include "cuda/e4m3.cuh"
#include "cuda/values.cuh"
#include "outrider/operations.h"

namespace outrider::cuda {

/// Keys have their positions side by side, values their dimensions.
struct KvBlock {
    char* bytes;  // [keys, values]: [head_dim, kBlockSize], [kBlockSize, head_dim]; then, if the format
                  // has them, scales, [2, kBlockSize]
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
        return has_scales(kFormat) ? scales()[(of_key ? 0 : kBlockSize) + slot] : 1.0f;
    }

    __device__ void set(bool is_key, int slot, int dim, float value) const {
        store(bytes, format == KvFormat::f32 ? Format::f32 : Format::bf16, index_of(is_key, slot, dim),
              value);
    }
    /// As value * factor, which must be within what the format holds.
    __device__ void set_scaled(bool is_key, int slot, int dim, float value, float factor) const {
        bytes[index_of(is_key, slot, dim)] = static_cast<char>(
            format == KvFormat::int8 ? nearest_integer(value, factor) : nearest_e4m3(value * factor));
    }
    /// What the format, which has scales, can hold.
    __device__ float largest() const { return format == KvFormat::int8 ? 127.0f : kLargestE4m3; }
    __device__ void set_scale(bool of_key, int slot, float scale) const {
        scales()[(of_key ? 0 : kBlockSize) + slot] = scale;
    }

  private:
    __device__ int index_of(bool is_key, int slot, int dim) const {
        return is_key ? dim * kBlockSize + slot : (kBlockSize + slot) * head_dim + dim;
    }
    template <KvFormat kFormat>
    __device__ float value_at(int index) const {
        if (kFormat == KvFormat::int8) {
            return static_cast<float>(reinterpret_cast<const int8_t*>(bytes)[index]);
        }
        if (kFormat == KvFormat::fp8) {
            return e4m3_value(static_cast<uint8_t>(bytes[index]));
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
