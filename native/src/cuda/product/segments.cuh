// Segments: K is cut into kSegments of them, whatever the number of rows. Each segment's sum adds its tiles
// in order, and the sums of the segments are added in order.
#pragma once

#include <cstdint>

#include "cuda/primitives/launch.cuh"
#include "cuda/weights/tiles.cuh"
#include "outrider/device/host_device.h"

namespace outrider::cuda {

constexpr int kSegments = 8;
constexpr int kNTileRows = 8;                    // activation rows of an N tile, columns of the instruction
constexpr int kMostSlicedRows = 2 * kNTileRows;  // of any SlicedProduct; twice as many with few outputs

/// The K tiles of a segment; the last segments may have fewer, or none.
struct Segment {
    int first;
    int tiles;
};

inline OUTRIDER_HOST_DEVICE int segment_tiles(const WeightView& weight) {
    return static_cast<int>((k_tiles_of(weight) + kSegments - 1) / kSegments);
}

/// The number of segments that are not empty.
inline OUTRIDER_HOST_DEVICE int num_segments(const WeightView& weight) {
    const int each = segment_tiles(weight);
    return (static_cast<int>(k_tiles_of(weight)) + each - 1) / each;
}

__device__ inline Segment segment_of(const WeightView& weight, int index) {
    const int each = segment_tiles(weight);
    const int left = static_cast<int>(k_tiles_of(weight)) - index * each;
    return {index * each, left < 0 ? 0 : left < each ? left : each};
}

}  // namespace outrider::cuda
