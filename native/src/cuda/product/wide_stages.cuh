// WideStages: shared memory as a ring of stages; some are filled by copies while another is multiplied.
#pragma once

#include <cstdint>

#include "cuda/primitives/copies.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/product/wide_shape.h"
#include "cuda/weights/tiles.cuh"
#include "outrider/device/operations.h"

namespace outrider::cuda {

/// Iterates over K tiles in stages of at most kTiles; no stage crosses the end of a segment.
template <int kTiles>
struct StageCursor {
    int tile;           // first tile of the stage
    int segment_end;    // end of its segment
    int end;            // end of all tiles
    int segment_tiles;  // tiles of each segment but the last

    __device__ static int smaller(int left, int right) { return left < right ? left : right; }

    /// Iterates over segments `first` ... `last`, at least one.
    __device__ StageCursor(int k_tiles, int segment_tiles_of, int first, int last)
        : tile(first * segment_tiles_of),
          segment_end(smaller((first + 1) * segment_tiles_of, k_tiles)),
          end(smaller((last + 1) * segment_tiles_of, k_tiles)),
          segment_tiles(segment_tiles_of) {}

    /// The number of tiles of the stage; 0 after the last.
    __device__ int count() const { return smaller(kTiles, segment_end - tile); }
    __device__ bool ends_segment() const { return tile + kTiles >= segment_end; }
    __device__ bool is_in_first() const { return tile < segment_tiles; }  // first segment of all
    __device__ void advance() {
        tile += kTiles;
        if (tile >= segment_end) {
            tile = segment_end;
            segment_end = smaller(segment_end + segment_tiles, end);
        }
    }
};

/// Both operands are stored in the order of a warp's lanes: the weights as they are packed, and the
/// activations in tiles of 8 rows by 32 inputs, 16 bytes for each lane.
template <typename Tile, WideShape kShape>
struct WideStages {
    static constexpr int kTiles = kShape.stage_tiles;
    static constexpr int kWarps = kShape.warps();
    static constexpr int kWeightBytes = kTiles * static_cast<int>(Tile::kBytes);  // per M tile
    static constexpr int kRowTileBytes = kWarp * kCopyBytes;
    static constexpr int kRowsBytes = kTiles * kRowTileBytes;  // per N tile
    static constexpr int kInputs = kShape.block_m_tiles() * kWeightBytes;
    static constexpr int kBytes = kInputs + kShape.block_n_tiles() * kRowsBytes;
    static constexpr int kWeightCopies = kShape.block_m_tiles() / kWarps;  // M tiles that each warp copies
    static constexpr int kRowCopies = kShape.block_n_tiles() / kWarps;
    static_assert(kShape.block_m_tiles() % kWarps == 0 && kShape.block_n_tiles() % kWarps == 0);
    using Cursor = StageCursor<kTiles>;

    char* shared;
    int warp;
    int lane;
    const char* weights[kWeightCopies];  // this lane's first bytes; null if there is no such M tile
    const char* rows[kRowCopies];
    bool has_rows[kRowCopies];
    Cursor next;

    __device__ WideStages(const Block& block, const Product& op, const WeightView& weight, int64_t m_tile,
                          int64_t first_row, const Cursor& first)
        : shared(block.shared), warp(block.warp()), lane(block.lane()), next(first) {
#pragma unroll
        for (int i = 0; i < kWeightCopies; ++i) {
            const int64_t own = m_tile + i * kWarps + warp;
            weights[i] = own < m_tiles_of(weight)
                             ? weight.data + own * k_tiles_of(weight) * Tile::kBytes + lane * kCopyBytes
                             : nullptr;
        }
#pragma unroll
        for (int i = 0; i < kRowCopies; ++i) {
            const int64_t row = first_row + (i * kWarps + warp) * kNTileRows + lane / 4;
            has_rows[i] = row < op.rows;
            rows[i] = static_cast<const char*>(op.input.data) +
                      ((has_rows[i] ? row * op.input.stride : 0) + lane % 4 * 8) * 2;
        }
    }

    __device__ const char* weights_of(int stage, int m_tile, int tile) const {
        return shared + stage * kBytes + m_tile * kWeightBytes + tile * static_cast<int>(Tile::kBytes);
    }
    __device__ const char* rows_of(int stage, int n_tile, int tile) const {
        return shared + stage * kBytes + kInputs + n_tile * kRowsBytes + tile * kRowTileBytes;
    }

    /// Starts to fill a stage; after the last tiles, only closes an empty group of copies.
    __device__ void fill(int stage) {
        const int count = next.count();
        if (count > 0) {
            fill_weights(shared + stage * kBytes, count);
            fill_rows(shared + stage * kBytes + kInputs, count);
            next.advance();
        }
        close_copies();
    }

    __device__ static int following(int stage) { return stage + 1 < kShape.stages ? stage + 1 : 0; }
    __device__ static int preceding(int stage) { return stage > 0 ? stage - 1 : kShape.stages - 1; }

  private:
    __device__ void fill_weights(char* to, int count) const {
        constexpr int kChunk = kWarp * kCopyBytes;
#pragma unroll
        for (int i = 0; i < kWeightCopies; ++i) {
            const char* from = weights[i] + next.tile * static_cast<int>(Tile::kBytes);
            const int bytes = weights[i] ? count * static_cast<int>(Tile::kBytes) - lane * kCopyBytes : 0;
            char* own = to + (i * kWarps + warp) * kWeightBytes + lane * kCopyBytes;
#pragma unroll
            for (int at = 0; at < kWeightBytes; at += kChunk) {
                if (at + kChunk <= kWeightBytes || lane * kCopyBytes < kWeightBytes - at) {
                    begin_copy<true>(own + at, from + at, at < bytes);
                }
            }
        }
    }

    __device__ void fill_rows(char* to, int count) const {
#pragma unroll
        for (int i = 0; i < kRowCopies; ++i) {
            const char* from = rows[i] + next.tile * (kTileInputs * 2);
            char* own = to + (i * kWarps + warp) * kRowsBytes + lane * kCopyBytes;
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) {
                begin_copy<true>(own + tile * kRowTileBytes, from + tile * kTileInputs * 2,
                                 has_rows[i] && tile < count);
            }
        }
    }
};

}  // namespace outrider::cuda
