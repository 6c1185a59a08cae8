// TileValues: a span's weighted values in some dimensions.
#pragma once

#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/kv_block.cuh"
#include "cuda/attention/tile_attention_scratch.cuh"
#include "cuda/attention/tile_copies.cuh"

namespace outrider::cuda {

/// Sums of all of a group's queries: the columns of an mma_m16n8k16 are eight dimensions, kNTilesOfWarp
/// times in each of a round's warps.
template <KvFormat kFormat, int kTiles>
struct TileValues {
    using Scratch = TileAttentionScratch<kTiles>;
    using Copies = TileCopies<kFormat>;

    const Attention& op;
    const Block& block;
    const Group& group;
    const Scratch& scratch;
    float sums[kTiles][kNTilesOfWarp][4];

    __device__ TileValues(const Attention& operation, const Block& place, const Group& queries,
                          const Scratch& shared, Copies& copies, int round, int span)
        : op(operation), block(place), group(queries), scratch(shared), sums{} {
        const bool has_dims = first_dim_of(block, round, 0) < op.cache.head_dim;
#pragma unroll 1
        for (int chunk = 0; chunk < kChunks; chunk += Copies::kChunksOfStage) {
            if (has_dims) {
                copies.wait();
#pragma unroll
                for (int i = 0; i < Copies::kChunksOfStage; ++i) {
                    add(copies, span * kChunks, chunk + i, i);
                }
            }
            copies.advance();
        }
    }

    __device__ float of(int index) const {
        return sums[index / 4 / kNTilesOfWarp][index / 4 % kNTilesOfWarp][index % 4];
    }

    /// Adds the i-th of a stage's chunks, which follow the chunk `first`.
    __device__ void add(const Copies& copies, int first, int chunk, int i) {
        if (!group.reads(first + chunk)) {
            return;
        }
        const bool is_whole = group.reads_all(first + chunk);
        Words<4> fragments[kNTilesOfWarp];
#pragma unroll
        for (int n_tile = 0; n_tile < kNTilesOfWarp; ++n_tile) {
            fragments[n_tile] = unpack<kFormat>(copies.values(i, n_tile));
        }
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
            if (has_queries(group, tile)) {
                const Words<4> weights[kSteps] = {scratch.weights_of(tile, chunk, 0, block.lane()),
                                                  scratch.weights_of(tile, chunk, 1, block.lane())};
                if (is_whole) {
#pragma unroll
                    for (int n_tile = 0; n_tile < kNTilesOfWarp; ++n_tile) {
                        multiply(weights, fragments[n_tile], sums[tile][n_tile]);
                    }
                } else {
                    add_by_rows(tile, (first + chunk) * kBlockSize, weights, fragments);
                }
            }
        }
    }

    /// Each row has zeros of its own where it attends to nothing: a value that only other rows attend to may
    /// be infinite, and one that nobody does may be anything. It is multiplied with its neighbours' weights,
    /// too, which are not kept.
    __device__ void add_by_rows(int tile, int start, const Words<4> (&weights)[kSteps],
                                const Words<4> (&values)[kNTilesOfWarp]) {
        const int upper = group.row_of(tile * kTileQueries + block.lane() / 4);
        const int lower = group.row_of(tile * kTileQueries + block.lane() / 4 + 8);
        const int last = group.row_of((tile + 1) * kTileQueries - 1);
#pragma unroll 1
        for (int row = group.row_of(tile * kTileQueries); row <= last && row < group.rows; ++row) {
            const Range range = range_of(op, group.position + row);
            if (!range.meets(start, kBlockSize)) {
                continue;
            }
#pragma unroll
            for (int n_tile = 0; n_tile < kNTilesOfWarp; ++n_tile) {
                float (&kept)[4] = sums[tile][n_tile];
                float own[4] = {kept[0], kept[1], kept[2], kept[3]};
                multiply(weights, masked(values[n_tile], range, start), own);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    kept[i] = row == (i < 2 ? upper : lower) ? own[i] : kept[i];
                }
            }
        }
    }

    __device__ Words<4> masked(const Words<4>& values, const Range& range, int start) const {
        Words<4> to;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            to.words[i] = values.words[i] & range.mask(start + i * 8 + block.lane() % 4 * 2);
        }
        return to;
    }

    __device__ static void multiply(const Words<4> (&weights)[kSteps], const Words<4>& values,
                                    float (&sums)[4]) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            mma_m16n8k16(sums, weights[step].words, {values.words[2 * step], values.words[2 * step + 1]});
        }
    }
};

}  // namespace outrider::cuda
