// WideProduct: the matrix product for more rows than SlicedProduct takes, with the same bits. Both operands
// pass through shared memory, so that warps share loads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/warp.cuh"
#include "cuda/product/wide_outputs.cuh"
#include "cuda/product/wide_shape.h"
#include "cuda/product/wide_stages.cuh"
#include "cuda/values/values.cuh"
#include "cuda/weights/tiles.cuh"
#include "outrider/device/operations.h"

namespace outrider::cuda {

template <typename Tile, WideShape kShape>
struct WideProduct {
    using Stages = WideStages<Tile, kShape>;
    using Cursor = typename Stages::Cursor;
    using RunsAlone = void;
    static constexpr int kMTiles = kShape.m_tiles;
    static constexpr int kNTiles = kShape.n_tiles;
    static constexpr int kBlockMTiles = kShape.block_m_tiles();
    static constexpr int kBlockRows = kShape.block_rows();
    static constexpr int kThreads = kShape.warps() * kWarp;
    static constexpr int kBlocksPerMultiprocessor = kShape.blocks_per_multiprocessor;
    static constexpr int kQuads = kMTiles * kNTiles;  // a lane's four outputs of an M tile and an N tile
    static constexpr bool kSharesTotals = kShape.shares_totals;
    static constexpr int kStagesBytes = kShape.stages * Stages::kBytes;
    static constexpr size_t kSharedBytes = kStagesBytes + (kSharesTotals ? kQuads * kThreads * 16 : 0);
    static constexpr int kRaster = 16;  // N blocks whose activations fit into the L2 cache together

    struct Sums {
        Quad quads[kQuads];
    };
    using Place = WidePlace;

    Product op;
    WeightView weight;

    __device__ int n_blocks() const { return (op.rows + kShape.block_rows() - 1) / kShape.block_rows(); }

    /// If K is cut, the segments of a place are consecutive; else the N blocks of a group are, which read the
    /// same weights, followed by the M blocks, which read the group's activations again.
    __device__ Place place_of(int64_t block) const {
        const int index = static_cast<int>(block);
        if constexpr (kShape.is_cut) {
            const int tile = index / num_segments(weight);
            return {tile / n_blocks(), tile % n_blocks(), index % num_segments(weight)};
        } else {
            const int m_blocks =
                (static_cast<int>(m_tiles_of(weight)) + kShape.block_m_tiles() - 1) / kShape.block_m_tiles();
            const int first = index / (kRaster * m_blocks) * kRaster;
            const int width = Cursor::smaller(kRaster, n_blocks() - first);
            const int in_group = index - first * m_blocks;
            return {in_group / width, first + in_group % width, 0};
        }
    }

    __device__ Cursor cursor(const Place& place) const {
        const int last = kShape.is_cut ? place.segment : kSegments - 1;
        return Cursor(static_cast<int>(k_tiles_of(weight)), segment_tiles(weight), place.segment, last);
    }

    __device__ void operator()(const Block& block) const {
        const Place place = place_of(block.index);
        Cursor cursor_of_use = cursor(place);
        Stages stages(block, op, weight, int64_t{place.m_block} * kShape.block_m_tiles(),
                      int64_t{place.n_block} * kShape.block_rows(), cursor_of_use);
#pragma unroll 1
        for (int i = 0; i < kShape.stages - 1; ++i) {
            stages.fill(i);
        }
        Sums sums = {};
        Sums totals = {};
#pragma unroll 1
        for (int stage = 0; cursor_of_use.count() > 0; stage = Stages::following(stage)) {
            wait_for_copies<kShape.stages - 2>();
            block.synchronize();  // and all have read the stage that is filled now
            stages.fill(Stages::preceding(stage));
            multiply_stage(block, stages, stage, cursor_of_use.count(), sums);
            if (!kShape.is_cut && cursor_of_use.ends_segment()) {
                end_segment(block, cursor_of_use.is_in_first(), sums, totals);
            }
            cursor_of_use.advance();
        }
        if constexpr (kShape.is_cut) {
            finish_cut(block, place, sums);
        } else {
            write_outputs(block, place, [&](int quad) {
                return kSharesTotals ? shared_total(block, quad) : totals.quads[quad];
            });
        }
    }

    __device__ void multiply_stage(const Block& block, const Stages& stages, int stage, int count,
                                   Sums& sums) const {
        const int m_tile = block.warp() / kShape.warps_n * kMTiles;
        const int n_tile = block.warp() % kShape.warps_n * kNTiles;
#pragma unroll
        for (int tile = 0; tile < kShape.stage_tiles; ++tile) {
            if (tile < count) {
                multiply_tiles(stages.weights_of(stage, m_tile, tile), stages.rows_of(stage, n_tile, tile),
                               block.lane(), sums);
            }
        }
    }

    /// Multiplies one K tile of all outputs of a warp.
    __device__ void multiply_tiles(const char* weights, const char* rows, int lane, Sums& sums) const {
        typename Tile::Words words[kMTiles];
        LeftOperands left[kMTiles];
#pragma unroll
        for (int m = 0; m < kMTiles; ++m) {
            words[m] = Tile::read(weights + m * Stages::kWeightBytes, lane);
            left[m] = in_own_registers(Tile::unpack(words[m]));
        }
#pragma unroll
        for (int n = 0; n < kNTiles; ++n) {
            const auto right = reinterpret_cast<const Words<4>*>(rows + n * Stages::kRowsBytes)[lane];
            if constexpr (Tile::kHasGroupScales) {
                Quad groups[kMTiles] = {};
                multiply_steps(left, right, groups);
                add_groups(words, groups, &sums.quads[n * kMTiles]);
            } else {
                multiply_steps(left, right, &sums.quads[n * kMTiles]);
            }
        }
    }

    /// If words are used exactly as they are loaded, the compiler would move them into an instruction's
    /// registers, again for each instruction. An operation that changes nothing, which the compiler cannot
    /// know, gives them fixed registers.
    __device__ LeftOperands in_own_registers(LeftOperands left) const {
        if constexpr (Tile::kIsPlain) {
            const auto nothing = static_cast<uint32_t>(op.rows >> 31);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                left.steps[i / 4][i % 4] |= nothing;
            }
        }
        return left;
    }

    /// The steps of different outputs alternate, so that an instruction does not wait for the one before.
    __device__ static void multiply_steps(const LeftOperands (&left)[kMTiles], const Words<4>& right,
                                          Quad* sums) {
#pragma unroll
        for (int step = 0; step < 2; ++step) {
#pragma unroll
            for (int m = 0; m < kMTiles; ++m) {
                mma_m16n8k16(sums[m].values, left[m].steps[step],
                             {right.words[2 * step], right.words[2 * step + 1]});
            }
        }
    }

    __device__ static void add_groups(const typename Tile::Words (&words)[kMTiles],
                                      const Quad (&groups)[kMTiles], Quad* sums) {
#pragma unroll
        for (int m = 0; m < kMTiles; ++m) {
            const float upper = Tile::upper_scale(words[m]);
            const float lower = Tile::lower_scale(words[m]);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sums[m].values[i] = fmaf(groups[m].values[i], i < 2 ? upper : lower, sums[m].values[i]);
            }
        }
    }

    template <typename TotalOf>
    __device__ void write_outputs(const Block& block, const Place& place, const TotalOf& total_of) const {
        WideOutputs<Tile, kShape>{op, weight}.write(block, place, total_of);
    }

    /// A thread's own totals in shared memory.
    __device__ static Quad& shared_total(const Block& block, int quad) {
        return reinterpret_cast<Quad*>(block.shared + kStagesBytes)[quad * kThreads + block.thread];
    }

    /// Adds a segment's sums to the totals, and resets them.
    __device__ static void end_segment(const Block& block, bool is_first, Sums& sums, Sums& totals) {
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
            Quad& total = kSharesTotals ? shared_total(block, i) : totals.quads[i];
            total = is_first ? sums.quads[i] : total + sums.quads[i];
            sums.quads[i] = {};
        }
    }

    /// Stores the sums of a segment; the last block to arrive adds up all segments of the place.
    __device__ void finish_cut(const Block& block, const Place& place, const Sums& sums) const {
        const int64_t tile = int64_t{place.m_block} * n_blocks() + place.n_block;
        auto* const counter = reinterpret_cast<uint32_t*>(op.scratch) + tile;
        auto* const kept = reinterpret_cast<Quad*>(op.scratch + kCutCounters) +
                           tile * (kSegments * kQuads * kThreads) + block.thread;
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
            kept[(place.segment * kQuads + i) * kThreads] = sums.quads[i];
        }
        if (!arrives_last(block, counter)) {
            return;
        }
        Quad totals[kNTiles];  // of an M tile, as many as registers hold: all are read before any is written
        write_outputs(block, place, [&](int quad) {
            if (quad < kMTiles) {
#pragma unroll
                for (int n = 0; n < kNTiles; ++n) {
                    totals[n] = sum_of_segments(kept + (n * kMTiles + quad) * kThreads);
                }
            }
            return totals[quad / kMTiles];
        });
    }

    __device__ bool arrives_last(const Block& block, uint32_t* counter) const {
        publish_writes();
        block.synchronize();
        int& flag = *reinterpret_cast<int*>(block.shared);
        if (block.thread == 0) {
            flag = arrive(counter) + 1 == static_cast<uint32_t>(num_segments(weight)) ? 1 : 0;
            if (flag != 0) {
                *counter = 0;  // for the next product
            }
            publish_writes();
        }
        block.synchronize();
        return flag != 0;
    }

    /// Loads all parts before the first addition.
    __device__ Quad sum_of_segments(const Quad* kept) const {
        const int segments = num_segments(weight);
        Quad sums[kSegments];
#pragma unroll
        for (int segment = 0; segment < kSegments; ++segment) {
            const int read = Cursor::smaller(segment, segments - 1);
            sums[segment] = bit_cast<Quad>(load_written_words(kept + read * (kQuads * kThreads)));
        }
        Quad total = sums[0];
#pragma unroll
        for (int segment = 1; segment < kSegments; ++segment) {
            total = segment < segments ? total + sums[segment] : total;
        }
        return total;
    }
};

}  // namespace outrider::cuda
