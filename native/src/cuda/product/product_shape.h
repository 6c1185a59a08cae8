// ProductShape: how a matrix product on tensor cores is cut into blocks and warps, and which cut is taken
// when.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider::cuda {

/// K is cut into so many segments, whatever the shape.
constexpr int kSegments = 8;

/// M is output features and N activation rows, as in the instruction's name, mma.m16n8k16. A block of one
/// warp's outputs is cut along K ("sliced K"): its warps are the segments of the same outputs. The warps of
/// any other block have outputs of their own and go through all segments.
struct ProductShape {
    int m_tiles = 1;  // of a warp, 16 output features each
    int n_tiles = 1;  // of a warp, 8 activation rows each
    int warps_m = 1;  // of a block
    int warps_n = 1;
    int prefetch_kilobytes = 1;  // of weights, for each M tile: they come from far
    int blocks_per_multiprocessor = 1;

    constexpr bool is_sliced_k() const { return warps_m * warps_n == 1; }
    constexpr int warps() const { return is_sliced_k() ? kSegments : warps_m * warps_n; }
    constexpr int block_m_tiles() const { return m_tiles * warps_m; }
    constexpr int block_n_tiles() const { return n_tiles * warps_n; }
};

/// A shape, and the products that it is for.
struct ShapeChoice {
    int64_t above_rows = 0;    // it is for products of more activation rows
    bool only_tall = false;    // with at least two M tiles of weights for each multiprocessor
    bool must_occupy = false;  // half of the multiprocessors
    ProductShape shape;
};

/// The first that is for a product is taken. All give the same bits, so speed alone has chosen them. Blocks
/// whose warps have outputs of their own read fewer activations and weights in all. The sums of scaled groups
/// need registers, too: their warps share the outputs of the widest shape among more, and some prefetch less.
template <bool kGroupScales>
inline constexpr ShapeChoice kShapeChoices[] = {
    {.above_rows = 64,
     .must_occupy = true,
     .shape = {.m_tiles = 4,
               .n_tiles = kGroupScales ? 4 : 8,
               .warps_m = 2,
               .warps_n = kGroupScales ? 4 : 2,
               .prefetch_kilobytes = 1,
               .blocks_per_multiprocessor = kGroupScales ? 1 : 2}},
    {.above_rows = 32,
     .must_occupy = true,
     .shape = {.m_tiles = kGroupScales ? 1 : 2,
               .n_tiles = 8,
               .warps_m = 4,
               .prefetch_kilobytes = 4,
               .blocks_per_multiprocessor = 2}},
    {.above_rows = 16,
     .must_occupy = true,
     .shape = {.m_tiles = 2,
               .n_tiles = 4,
               .warps_m = 4,
               .prefetch_kilobytes = 2,
               .blocks_per_multiprocessor = kGroupScales ? 2 : 3}},
    {.above_rows = 32, .shape = {.m_tiles = 2, .n_tiles = 8, .prefetch_kilobytes = kGroupScales ? 2 : 4}},
    {.above_rows = 16,
     .shape = {.m_tiles = 2,
               .n_tiles = 4,
               .prefetch_kilobytes = 2,
               .blocks_per_multiprocessor = kGroupScales ? 1 : 2}},
    {.above_rows = 8,
     .only_tall = true,
     .shape = {.m_tiles = 2, .n_tiles = 2, .prefetch_kilobytes = 2, .blocks_per_multiprocessor = 2}},
    {.above_rows = 8, .shape = {.n_tiles = 2, .prefetch_kilobytes = 4, .blocks_per_multiprocessor = 2}},
    {.only_tall = true, .shape = {.m_tiles = 2, .prefetch_kilobytes = 4, .blocks_per_multiprocessor = 2}},
    {.shape = {.prefetch_kilobytes = kGroupScales ? 4 : 6, .blocks_per_multiprocessor = 2}},
};

}  // namespace outrider::cuda
