// group_product: chooses the tiles of rows for a product, and launches it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/primitives/launch.cuh"
#include "cuda/product/group_product.cuh"
#include "cuda/product/group_shape.h"
#include "cuda/product/row_tiles.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

template <typename Tile, int kRows>
void launch_group(const Stream& stream, const Product& op, const WeightView& weight) {
    using Kernel = GroupProduct<Tile, kRows>;
    const int row_tiles = (op.rows + kRows - 1) / kRows;
    const auto strips = static_cast<int>((m_tiles_of(weight) + kUnitMTiles - 1) / kUnitMTiles);
    const int segments = num_segments(weight);
    const int units = strips * row_tiles;
    const RowTiles rows{reinterpret_cast<char*>(op.scratch + group_parts(stream.multiprocessors())), kRows,
                        static_cast<int>(k_tiles_of(weight))};
    arrange_rows(stream, op.input, op.rows, rows);
    const int blocks = std::min(stream.multiprocessors(), units * segments);
    for_each_block(stream, blocks, Kernel::kSharedBytes,
                   Kernel{op, weight, rows, {units, segments, blocks}, row_tiles});
}

/// Whether a GroupProduct can run, and is faster than a WideProduct.
inline bool is_grouped(const Stream& stream, const Product& op) {
    return stream.multiplies_in_groups() && op.scratch && op.rows >= kFewestGroupedRows;
}

/// Uses taller tiles, which read fewer weights, unless too many of their rows would be padding. With scaled
/// groups there are not enough registers for taller tiles.
template <typename Tile>
void group_product(const Stream& stream, const Product& op, const WeightView& weight) {
    if constexpr (!Tile::kHasGroupScales) {
        if (8 * padded_rows(op.rows, kMostUnitRows) <= 9 * padded_rows(op.rows, kUnitRows)) {
            return launch_group<Tile, kMostUnitRows>(stream, op, weight);
        }
    }
    launch_group<Tile, kUnitRows>(stream, op, weight);
}

}  // namespace outrider::cuda
