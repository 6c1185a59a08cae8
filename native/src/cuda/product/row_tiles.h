// RowTiles: activations in the order in which a GroupProduct copies them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/runtime/stream.h"
#include "cuda/weights/weight_tile.cuh"
#include "outrider/device/host_device.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

/// bf16, [row tiles][K tiles][rows of a tile / 8][4 cores][8 rows][8 inputs]. Core j holds, for each row, the
/// inputs 2 j and 2 j + 1 of every eight neighbours: the values of one register in a left operand's four
/// lanes.
struct RowTiles {
    char* data;
    int tile_rows;
    int k_tiles;

    static constexpr int kRowBytes = kTileInputs * 2;  // per K tile
    static constexpr int kCoreBytes = 8 * 16;
    static constexpr int kCores = 4;

    OUTRIDER_HOST_DEVICE char* at(int64_t row_tile, int k_tile) const {
        return data + (row_tile * k_tiles + k_tile) * tile_rows * kRowBytes;
    }
};

/// Fills all tiles of `rows` rows; padding rows are zeros.
void arrange_rows(const Stream& stream, const Activations& from, int rows, const RowTiles& to);

}  // namespace outrider::cuda
