// wide_product: chooses the WideShape of a product, and launches it.
#pragma once

#include <cstdint>

#include "cuda/primitives/launch.cuh"
#include "cuda/product/wide_product.cuh"
#include "cuda/product/wide_shape.h"
#include "cuda/weights/tiles.cuh"
#include "outrider/device/operations.h"

namespace outrider::cuda {

/// The number of blocks of outputs.
inline int64_t outputs_of(const WideShape& shape, const Product& op, const WeightView& weight) {
    return (m_tiles_of(weight) + shape.block_m_tiles() - 1) / shape.block_m_tiles() *
           ((op.rows + shape.block_rows() - 1) / shape.block_rows());
}

template <typename Tile, WideShape kShape>
void launch_wide(const Stream& stream, const Product& op, const WeightView& weight) {
    using Kernel = WideProduct<Tile, kShape>;
    const int64_t segments = kShape.is_cut ? num_segments(weight) : 1;
    for_each_block(stream, outputs_of(kShape, op, weight) * segments, Kernel::kSharedBytes,
                   Kernel{op, weight});
}

/// Splits K into segments if there are few outputs and scratch for it.
template <typename Tile, int kNTiles>
void few_rows_product(const Stream& stream, const Product& op, const WeightView& weight) {
    constexpr WideShape kWhole = kFewRows<Tile, kNTiles>;
    constexpr WideShape kCut = kFewOutputs<Tile, kNTiles>;
    if (op.scratch && outputs_of(kCut, op, weight) <= most_cut_outputs(stream.multiprocessors())) {
        launch_wide<Tile, kCut>(stream, op, weight);
    } else {
        launch_wide<Tile, kWhole>(stream, op, weight);
    }
}

template <typename Tile>
void wide_product(const Stream& stream, const Product& op, const WeightView& weight) {
    constexpr WideShape kMany = kManyRows<Tile>;
    if (op.rows <= 32) {
        few_rows_product<Tile, 4>(stream, op, weight);
    } else if (op.rows <= kCutRows ||
               outputs_of(kMany, op, weight) < most_cut_outputs(stream.multiprocessors()) ||
               WideProduct<Tile, kMany>::kSharedBytes > stream.block_memory()) {
        few_rows_product<Tile, 8>(stream, op, weight);
    } else {
        launch_wide<Tile, kMany>(stream, op, weight);
    }
}

}  // namespace outrider::cuda
