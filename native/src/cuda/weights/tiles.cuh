// Tiles: the tiles of a whole matrix.
#pragma once

#include <stdexcept>

#include "cuda/weights/int4_tile.cuh"
#include "cuda/weights/weight_tile.cuh"
#include "cuda/weights/weight_view.h"
#include "outrider/device/host_device.h"

namespace outrider::cuda {

inline OUTRIDER_HOST_DEVICE int64_t m_tiles_of(const WeightView& weight) {
    return (weight.out_features + kTileFeatures - 1) / kTileFeatures;
}
inline OUTRIDER_HOST_DEVICE int64_t k_tiles_of(const WeightView& weight) {
    return (weight.in_features + kTileInputs - 1) / kTileInputs;
}

/// The tile of an output feature and an input.
template <typename Tile>
__device__ char* tile_of(const WeightView& weight, int64_t feature, int64_t input) {
    const int64_t m_tile = feature / kTileFeatures;
    return weight.data + (m_tile * k_tiles_of(weight) + input / kTileInputs) * Tile::kBytes;
}

/// Calls `body` with the tile type of a format; float32 has none.
template <typename Body>
auto with_tile(WeightFormat format, const Body& body) {
    switch (format) {
        case WeightFormat::bf16:
            return body(Bf16Tile());
        case WeightFormat::int8:
            return body(Int8Tile());
        case WeightFormat::int4:
            return body(Int4Tile());
        case WeightFormat::fp8:
            return body(Fp8Tile());
        default:
            throw std::logic_error("float32 weights are in no tiles");
    }
}

}  // namespace outrider::cuda
