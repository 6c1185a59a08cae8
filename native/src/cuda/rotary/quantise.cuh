// Quantises a vector into a block of keys and values, for a format with scales.
#pragma once

#include <cstdint>

#include "cuda/attention/kv_block.cuh"
#include "cuda/primitives/reduce.cuh"

namespace outrider::cuda {

/// Stores a vector from dimension `first` of a slot on, and its scale; each of a warp's lanes has every 32nd number. The
/// largest magnitude becomes the format's. If a number is not finite, the scale is NaN, so that results computed
/// from it are NaN too.
template <int kColumns>
__device__ void store_quantised(const Block& block, const KvBlock& kv, bool is_key, bool scale_of_key,
                                int slot, int first, int width, const float (&own)[kColumns]) {
    float largest = 0.0f;
    int is_finite = 1;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
        const float magnitude = own[i] < 0.0f ? -own[i] : own[i];
        largest = magnitude > largest ? magnitude : largest;
        is_finite = magnitude < bit_cast<float>(0x7F800000u) ? is_finite : 0;
    }
    largest = reduce_warp(largest, Greater());
    is_finite = reduce_warp(is_finite, Less());
    constexpr float kSmallest = 1e-30f;  // below it the factor could be infinite
    const float factor = is_finite != 0 && largest > kSmallest ? kv.largest() / largest : 0.0f;
    if (block.lane() == 0) {
        const float scale = factor > 0.0f ? largest / kv.largest() : 0.0f;
        kv.set_scale(scale_of_key, slot, is_finite != 0 ? scale : bit_cast<float>(0x7FC00000u));
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
        const int column = i * kWarp + block.lane();
        if (column < width) {
            kv.set_scaled(is_key, slot, first + column, factor != 0.0f ? own[i] : 0.0f, factor);
        }
    }
}

}  // namespace outrider::cuda
