// GroupRing: shared memory as a ring of stages, which one thread fills and two groups of warps multiply.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/primitives/barriers.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/warp.cuh"
#include "cuda/product/group_shape.h"
#include "cuda/product/row_tiles.h"
#include "cuda/weights/tiles.cuh"

namespace outrider::cuda {

/// A stage holds two K tiles (one at the end of a segment) of eight M tiles and of a tile of rows. The warps
/// that multiply wait until it is full, and the thread that copies waits until all of them have released it.
template <typename Tile, int kRows>
struct GroupRing {
    static constexpr int kTiles = 2;
    static constexpr int kWeightBytes = kTiles * static_cast<int>(Tile::kBytes);  // per M tile
    static constexpr int kInputs = kUnitMTiles * kWeightBytes;
    static constexpr int kStageBytes = kInputs + kTiles * kRows * RowTiles::kRowBytes;
    static constexpr int kStages = std::min(8, (208 << 10) / kStageBytes);
    static constexpr size_t kBytes = kStages * (kStageBytes + 2 * sizeof(Barrier));
    static constexpr int kReadingWarps = 8;

    char* shared;
    int slot = 0;         // of the next stage
    uint32_t parity = 0;  // of the next stage's turn

    __device__ explicit GroupRing(const Block& block) : shared(block.shared) {}

    /// Called by one thread, before a barrier of the block.
    __device__ void initialise() const {
        for (int i = 0; i < kStages; ++i) {
            full(i).initialise(1);
            empty(i).initialise(kReadingWarps);
        }
        publish_barriers();
    }

    __device__ void advance() {
        slot = slot + 1 < kStages ? slot + 1 : 0;
        parity ^= slot == 0 ? 1 : 0;
    }

    /// One thread starts to copy `count` K tiles, from `k_tile` on, into the next stage.
    __device__ void fill(const WeightView& weight, int m_tile, const RowTiles& rows, int row_tile, int k_tile,
                         int count) const {
        const auto left = static_cast<int>(m_tiles_of(weight)) - m_tile;
        const int m_tiles = left < kUnitMTiles ? left : kUnitMTiles;
        const int weight_bytes = count * static_cast<int>(Tile::kBytes);
        const int row_bytes = count * kRows * RowTiles::kRowBytes;
        empty(slot).wait(parity ^ 1);
        full(slot).arrive_expecting(m_tiles * weight_bytes + row_bytes);
        begin_bulk_copy(stage(slot) + kInputs, rows.at(row_tile, k_tile), row_bytes, full(slot));
        const int64_t stride = k_tiles_of(weight) * Tile::kBytes;
        const char* from = weight.data + m_tile * stride + k_tile * Tile::kBytes;
#pragma unroll 1
        for (int i = 0; i < m_tiles; ++i, from += stride) {
            begin_bulk_copy(stage(slot) + i * kWeightBytes, from, weight_bytes, full(slot));
        }
    }

    /// Waits for the next stage.
    __device__ void wait() const { full(slot).wait(parity); }

    /// Releases a stage (-1: none); called by every warp that multiplies, after it has read the stage.
    __device__ void release(int of_slot, int lane) const {
        synchronize_warp();
        if (lane == 0 && of_slot >= 0) {
            empty(of_slot).arrive();
        }
    }

    __device__ const char* weights(int m_tile, int tile) const {
        return stage(slot) + m_tile * kWeightBytes + tile * static_cast<int>(Tile::kBytes);
    }
    /// The activations of one step of a K tile.
    __device__ const char* inputs(int tile, int step) const {
        return stage(slot) + kInputs + tile * kRows * RowTiles::kRowBytes + step * 2 * RowTiles::kCoreBytes;
    }

  private:
    __device__ char* stage(int index) const { return shared + index * kStageBytes; }
    __device__ Barrier& full(int index) const {
        return reinterpret_cast<Barrier*>(shared + kStages * kStageBytes)[index];
    }
    __device__ Barrier& empty(int index) const { return full(kStages + index); }
};

}  // namespace outrider::cuda
