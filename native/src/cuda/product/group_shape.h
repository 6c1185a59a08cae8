// GroupShape and GroupWork: divide a GroupProduct into units, and the units among thread blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/product/segments.cuh"
#include "cuda/product/wide_shape.h"
#include "cuda/weights/tiles.cuh"
#include "outrider/device/host_device.h"

namespace outrider::cuda {

constexpr int kUnitMTiles = 8;  // two groups of four warps, 16 features each
constexpr int kUnitFeatures = kUnitMTiles * kTileFeatures;
constexpr int kUnitRows = 128;
constexpr int kMostUnitRows = 192;
constexpr int kFewestGroupedRows = 65;

constexpr int padded_rows(int rows, int tile) {
    return (rows + tile - 1) / tile * tile;
}

/// The floats at the beginning of a product's scratch: counters, and the parts of units that several blocks
/// share.
constexpr size_t group_parts(int multiprocessors) {
    return kCutCounters + size_t{kSegments} * kUnitFeatures * kMostUnitRows * multiprocessors;
}

/// The floats of the whole scratch; the activations follow the parts.
constexpr size_t group_scratch(int multiprocessors, int rows, int64_t in_features) {
    const int64_t inputs = (in_features + kTileInputs - 1) / kTileInputs * kTileInputs;
    return rows < kFewestGroupedRows
               ? 0
               : group_parts(multiprocessors) + static_cast<size_t>(rows + kMostUnitRows) * inputs / 2;
}

/// Neighbouring segments of one unit: 128 output features by a tile of activation rows.
struct GroupRun {
    int unit;
    int first;
    int end;

    OUTRIDER_HOST_DEVICE bool is_empty() const { return first >= end; }
};

/// A product's units, each of `segments` segments. Each block gets the same number of whole units, as many as
/// possible; the segments of the remaining units are shared by all blocks. Blocks that run at the same time
/// have neighbouring units, which read the same weights.
struct GroupWork {
    int units;
    int segments;  // per unit
    int blocks;

    OUTRIDER_HOST_DEVICE int whole() const { return units / blocks; }
    /// Items are the segments of the remaining units, in order.
    OUTRIDER_HOST_DEVICE int first_item(int block) const {
        return (units - whole() * blocks) * segments * block / blocks;
    }
    OUTRIDER_HOST_DEVICE int block_of(int item) const {
        const int items = (units - whole() * blocks) * segments;
        return ((item + 1) * blocks - 1) / items;
    }
    OUTRIDER_HOST_DEVICE int unit_of(int item) const { return whole() * blocks + item / segments; }

    /// A block's runs, turn by turn; the one after the last is empty.
    OUTRIDER_HOST_DEVICE GroupRun run(int block, int turn) const {
        if (turn < whole()) {
            return {turn * blocks + block, 0, segments};
        }
        const int begin = first_item(block);
        const int end = first_item(block + 1);
        const int first = turn == whole() ? begin : (begin / segments + turn - whole()) * segments;
        if (first >= end) {
            return {0, 0, 0};
        }
        const int length =
            end - first < segments - first % segments ? end - first : segments - first % segments;
        return {unit_of(first), first % segments, first % segments + length};
    }
};

}  // namespace outrider::cuda
