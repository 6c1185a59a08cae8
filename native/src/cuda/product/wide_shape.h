// WideShape: how a product of many rows is divided into blocks, warps and stages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/product/segments.cuh"

namespace outrider::cuda {

/// All warps of a block go through K together, a stage of some tiles at a time. M is output features, N
/// activation rows, as in SlicedShape.
struct WideShape {
    int m_tiles = 2;  // per warp, 16 output features each
    int n_tiles = 8;  // per warp, 8 activation rows each
    int warps_m = 4;  // per block
    int warps_n = 1;
    int stage_tiles = 1;  // K tiles per stage
    int stages = 3;       // stages in shared memory
    int blocks_per_multiprocessor = 2;
    bool shares_totals = false;  // the totals of segments are in shared memory, not in registers
    bool is_cut = false;         // a block computes one segment, and the last one to arrive adds them up

    constexpr int warps() const { return warps_m * warps_n; }
    constexpr int block_m_tiles() const { return m_tiles * warps_m; }
    constexpr int block_n_tiles() const { return n_tiles * warps_n; }
    constexpr int block_rows() const { return block_n_tiles() * kNTileRows; }
};

/// For many rows: blocks of 256 features by 128 rows read little for the work that they do. The sums of
/// scaled groups take registers too, so more warps share the outputs.
template <typename Tile>
inline constexpr WideShape kManyRows{.m_tiles = Tile::kHasGroupScales ? 2 : 4,
                                     .warps_m = Tile::kHasGroupScales ? 8 : 4,
                                     .warps_n = 2,
                                     .stage_tiles = Tile::kBytes == 512 ? 2 : 1,
                                     .stages = Tile::kBytes == 512 ? 3 : 4,
                                     .blocks_per_multiprocessor = 1,
                                     .shares_totals = true};

/// For few rows, whose time is spent on loading weights: keeps as many loads in flight as possible.
template <typename Tile, int kNTiles>
inline constexpr WideShape kFewRows{
    .n_tiles = kNTiles, .stage_tiles = Tile::kBytes > 512 ? 2 : 4, .stages = Tile::kBytes > 512 ? 4 : 3};

/// For few outputs, whose blocks would not occupy all multiprocessors.
template <typename Tile, int kNTiles>
inline constexpr WideShape kFewOutputs{
    .n_tiles = kNTiles,
    .stage_tiles = 2,
    .stages = Tile::kBytes > 512 ? 3 : 4,
    .blocks_per_multiprocessor = Tile::kBytes <= 512 && kNTiles > 4 ? 2 : 3,
    .is_cut = true};

constexpr int kCutFeatures = 128;  // of a block, which has at most kCutRows rows
constexpr int kCutRows = 64;
constexpr int kCutCounters = 1024;  // at the beginning of the scratch: zeros while no product runs

/// K is cut if there are fewer blocks of outputs than this.
constexpr int64_t most_cut_outputs(int multiprocessors) {
    return std::min<int64_t>(kCutCounters, int64_t{multiprocessors} * 3 / 4);
}

constexpr size_t cut_scratch(int multiprocessors, int64_t rows, int64_t out_features) {
    if (rows <= kMostSlicedRows) {
        return 0;
    }
    const int64_t blocks =
        (out_features + kCutFeatures - 1) / kCutFeatures * ((rows + kCutRows - 1) / kCutRows);
    return kCutCounters +
           std::min(blocks, most_cut_outputs(multiprocessors)) * kSegments * kCutFeatures * kCutRows;
}

}  // namespace outrider::cuda
