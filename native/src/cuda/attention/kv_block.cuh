// KvBlock: the keys and values of one head in one block of positions.
#pragma once

#include <cstdint>

#include "cuda/primitives/instructions.cuh"
#include "cuda/values/e4m3.cuh"
#include "cuda/values/values.cuh"
#include "cuda/weights/weight_tile.cuh"
#include "outrider/device/host_device.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

constexpr int kFragmentSize = 8;  // values that a lane reads at once

/// Whether the cache has the layout of tensor cores' right operands.
inline OUTRIDER_HOST_DEVICE bool is_tiled(KvFormat format, int head_dim) {
    return format != KvFormat::f32 && head_dim % kFragmentSize == 0;
}

/// A fragment of a right operand, as it is stored: eight neighbours.
template <KvFormat kFormat>
using KvFragment = Words<kFormat == KvFormat::bf16 ? 4 : 2>;

/// Converts a fragment to bf16, which is exact.
template <KvFormat kFormat>
__device__ Words<4> unpack(const KvFragment<kFormat>& from) {
    if constexpr (kFormat == KvFormat::bf16) {
        return from;
    } else if constexpr (kFormat == KvFormat::int8) {
        return {{Int8Tile::pair(from.words[0]), Int8Tile::pair(from.words[0] >> 8),
                 Int8Tile::pair(from.words[1]), Int8Tile::pair(from.words[1] >> 8)}};
    } else {
        return {{Fp8Tile::pair(from.words[0] << 8), Fp8Tile::pair(from.words[0]),
                 Fp8Tile::pair(from.words[1] << 8), Fp8Tile::pair(from.words[1])}};
    }
}

/// For the float units, keys are stored with neighbouring positions side by side, values with neighbouring
/// dimensions. For tensor cores it is the reverse, in fragments of eight neighbours that share a lane's
/// registers: a key fragment holds dimensions; a value fragment holds the positions 8 j + 2 c and 8 j + 2 c +
/// 1 for j in 0 ... 3, the positions of the weights that lane c of four holds.
///
/// Of latent vectors there are keys only, whose first dimensions are the values.
struct KvBlock {
    char* bytes;  // [keys, values]: [head_dim, kBlockSize], [kBlockSize, head_dim]; for tensor cores
                  // [head_dim / 8, kBlockSize, 8], [head_dim, 4, 8]; then, if the format has them, scales,
                  // [2, kBlockSize]
    KvFormat format;
    int head_dim;
    bool is_latent;

    template <KvFormat kFormat>
    __device__ float key(int slot, int dim) const {
        return value_at<kFormat>(dim * kBlockSize + slot);
    }
    template <KvFormat kFormat>
    __device__ float value(int slot, int dim) const {
        return is_latent ? key<kFormat>(slot, dim) : value_at<kFormat>((kBlockSize + slot) * head_dim + dim);
    }
    /// The scale of a slot's key, or of its value; the key's is that of the part that turns if it is latent.
    template <KvFormat kFormat>
    __device__ float scale(bool of_key, int slot) const {
        return has_scales(kFormat) ? scales()[(of_key ? 0 : kBlockSize) + slot] : 1.0f;
    }

    __device__ void set(bool is_key, int slot, int dim, float value) const {
        store(bytes, format == KvFormat::f32 ? Format::f32 : Format::bf16, index_of(is_key, slot, dim),
              value);
    }
    /// Stores value * factor, which must be in the range of the format.
    __device__ void set_scaled(bool is_key, int slot, int dim, float value, float factor) const {
        bytes[index_of(is_key, slot, dim)] = static_cast<char>(
            format == KvFormat::int8 ? nearest_integer(value, factor) : nearest_e4m3(value * factor));
    }
    /// The largest magnitude of the format, which must have scales.
    __device__ float largest() const { return format == KvFormat::int8 ? 127.0f : kLargestE4m3; }
    __device__ void set_scale(bool of_key, int slot, float scale) const {
        scales()[(of_key ? 0 : kBlockSize) + slot] = scale;
    }

  private:
    __device__ int index_of(bool is_key, int slot, int dim) const {
        if (!is_tiled(format, head_dim)) {
            return is_key ? dim * kBlockSize + slot : (kBlockSize + slot) * head_dim + dim;
        }
        if (is_key) {
            return (dim / kFragmentSize * kBlockSize + slot) * kFragmentSize +
                   in_fragment(dim % kFragmentSize);
        }
        return (head_dim + dim) * kBlockSize + slot % 8 / 2 * kFragmentSize +
               in_fragment(slot / 8 * 2 + slot % 2);
    }
    /// The place in a fragment: in every four bytes, the second and the third are swapped, as in a ByteTile.
    __device__ int in_fragment(int i) const {
        return format == KvFormat::bf16 ? i : i / 4 * 4 + ByteTile::swapped(i % 4);
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
        return reinterpret_cast<float*>(bytes + int64_t{is_latent ? 1 : 2} * kBlockSize * head_dim);
    }
};

/// The bytes of one head of a block.
inline OUTRIDER_HOST_DEVICE int64_t head_bytes(const KvLayer& cache) {
    const int64_t position = cache.latent_rank > 0
                                 ? kv_bytes(cache.format, cache.latent_rank) +
                                       kv_bytes(cache.format, cache.head_dim - cache.latent_rank)
                                 : 2 * kv_bytes(cache.format, cache.head_dim);
    return kBlockSize * position;
}

/// Finds one head of a block; a block's heads follow one another.
__device__ inline KvBlock find_block(const KvLayer& cache, int64_t block, int64_t head) {
    return {static_cast<char*>(cache.data) + (block * cache.num_kv_heads + head) * head_bytes(cache),
            cache.format, cache.head_dim, cache.latent_rank > 0};
}

/// The block table of a row's sequence.  # [max_blocks]
__device__ inline const int32_t* table_of(const RowPlaces& places, int64_t row) {
    return places.block_tables + static_cast<int64_t>(places.sequences[row]) * places.max_blocks;
}

}  // namespace outrider::cuda
