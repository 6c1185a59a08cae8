// GroupSums: the sums of one warp of a GroupProduct over a segment.
#pragma once

#include <cstdint>

#include "cuda/primitives/groups.cuh"
#include "cuda/product/group_ring.cuh"
#include "cuda/product/row_tiles.h"
#include "cuda/weights/tiles.cuh"

namespace outrider::cuda {

/// Sums of 16 features by kRows rows: values[4 j] ... values[4 j + 3] are a lane's four sums in rows 8 j ...
/// 8 j + 7.
template <typename Tile, int kRows>
struct GroupSums {
    static constexpr int kValues = kRows / 2;
    using Ring = GroupRing<Tile, kRows>;

    float values[kValues];

    /// Adds the products of `tiles` K tiles, stage by stage.
    __device__ void add(Ring& ring, int tiles, int warp, int lane) {
        if constexpr (Tile::kHasGroupScales) {
            add_scaled(ring, tiles, warp, lane);
        } else {
            add_plain(ring, tiles, warp, lane);
        }
    }

  private:
    __device__ static void multiply(const Ring& ring, int tile, const LeftOperands& left,
                                    float (&sums)[kValues]) {
        begin_multiplying();
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            multiply_group<kRows>(sums, left.steps[step],
                                  RightOperand(ring.inputs(tile, step), RowTiles::kCoreBytes,
                                               RowTiles::kCores * RowTiles::kCoreBytes));
        }
        close_multiplications();
    }

    __device__ static LeftOperands pinned(const typename Tile::Words& words) {
        LeftOperands left = Tile::unpack(words);
        keep(left);
        return left;
    }

    /// Keeps these registers from being reused before this place.
    __device__ static void keep(LeftOperands& left) {
        pin(left.steps[0]);
        pin(left.steps[1]);
    }

    /// Multiplies one tile while the weights of the next are being read.
    __device__ void add_plain(Ring& ring, int tiles, int warp, int lane) {
        static_assert(Ring::kTiles == 2, "two sets of registers take turns");
        LeftOperands left[Ring::kTiles] = {};
        int read = -1;  // slot of the stage before
        pin(values);
#pragma unroll 1
        for (int tile = 1; tile < tiles; tile += Ring::kTiles) {
            ring.wait();
            left[0] = pinned(Tile::read(ring.weights(warp, 0), lane));
            multiply(ring, 0, left[0], values);
            wait_for_multiplications<1>();
            keep(left[1]);
            ring.release(read, lane);
            left[1] = pinned(Tile::read(ring.weights(warp, 1), lane));
            multiply(ring, 1, left[1], values);
            wait_for_multiplications<1>();
            keep(left[0]);
            read = ring.slot;
            ring.advance();
        }
        wait_for_multiplications<0>();
        keep(left[1]);
        pin(values);
        ring.release(read, lane);
        if (tiles % Ring::kTiles != 0) {
            add_last(ring, warp, lane);
        }
    }

    /// Adds a stage of one tile.
    __device__ void add_last(Ring& ring, int warp, int lane) {
        ring.wait();
        const LeftOperands left = pinned(Tile::read(ring.weights(warp, 0), lane));
        multiply(ring, 0, left, values);
        wait_for_multiplications<0>();
        pin(values);
        ring.release(ring.slot, lane);
        ring.advance();
    }

    /// Multiplies each tile's sum with the scales that its weights share.
    __device__ void add_scaled(Ring& ring, int tiles, int warp, int lane) {
#pragma unroll 1
        for (int tile = 0; tile < tiles; tile += Ring::kTiles) {
            ring.wait();
#pragma unroll
            for (int i = 0; i < Ring::kTiles; ++i) {
                if (tile + i < tiles) {
                    add_group(ring, i, warp, lane);
                }
            }
            ring.release(ring.slot, lane);
            ring.advance();
        }
    }

    __device__ void add_group(const Ring& ring, int tile, int warp, int lane) {
        const typename Tile::Words words = Tile::read(ring.weights(warp, tile), lane);
        const LeftOperands left = pinned(words);
        float group[kValues] = {};
        pin(group);
        multiply(ring, tile, left, group);
        const float upper = Tile::upper_scale(words);
        const float lower = Tile::lower_scale(words);
        wait_for_multiplications<0>();
        pin(group);
#pragma unroll
        for (int i = 0; i < kValues; ++i) {
            values[i] = fmaf(group[i], i % 4 < 2 ? upper : lower, values[i]);
        }
    }
};

}  // namespace outrider::cuda
