// GroupProduct: the matrix product of many rows on Hopper, with the same bits as the other products. Two
// groups of four warps multiply the data that a further thread copies into shared memory; a group's
// instructions take activations from there, and unpacked weights from registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/primitives/groups.cuh"
#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/product/group_ring.cuh"
#include "cuda/product/group_shape.h"
#include "cuda/product/group_sums.cuh"
#include "cuda/product/row_tiles.h"
#include "cuda/product/wide_outputs.cuh"
#include "cuda/values/values.cuh"
#include "outrider/device/operations.h"

namespace outrider::cuda {

template <typename Tile, int kRows>
struct GroupProduct {
    using RunsAlone = void;
    using MultipliesInGroups = void;
    using Ring = GroupRing<Tile, kRows>;
    using Sums = GroupSums<Tile, kRows>;
    static constexpr int kQuads = kRows / kNTileRows;
    using Outputs = WideOutputs<Tile, WideShape{.m_tiles = 1, .n_tiles = kQuads, .warps_m = kUnitMTiles}>;
    static constexpr int kReaders = 2 * kGroup;  // threads that multiply
    static constexpr int kThreads = kReaders + kGroup;
    static constexpr int kBlocksPerMultiprocessor = 1;
    static constexpr int kCopyRegisters = 40;
    static constexpr int kReaderRegisters = 232;
    static_assert(kGroup * kCopyRegisters + kReaders * kReaderRegisters <= 65536,
                  "else the block waits for ever");
    static constexpr int kAtOnce = 4;  // outputs whose parts are in registers at once
    static_assert(kQuads % kAtOnce == 0, "outputs come in whole batches");
    static constexpr size_t kSharedBytes = Ring::kBytes + sizeof(uint64_t);

    Product op;
    WeightView weight;
    RowTiles rows;
    GroupWork work;
    int row_tiles;

    __device__ void operator()(const Block& block) const {
        const Ring ring(block);
        if (block.thread == 0) {
            ring.initialise();
        }
        block.synchronize();
        if (block.thread >= kReaders) {
            give_registers<kCopyRegisters>();
            if (block.thread == kReaders) {
                copy_all(block, ring);
            }
        } else {
            take_registers<kReaderRegisters>();
            multiply_all(block, ring);
        }
    }

  private:
    __device__ void copy_all(const Block& block, Ring ring) const {
        GroupRun run;
#pragma unroll 1
        for (int turn = 0; !(run = work.run(static_cast<int>(block.index), turn)).is_empty(); ++turn) {
#pragma unroll 1
            for (int i = run.first; i < run.end; ++i) {
                const Segment segment = segment_of(weight, i);
#pragma unroll 1
                for (int tile = 0; tile < segment.tiles; tile += Ring::kTiles) {
                    const int left = segment.tiles - tile;
                    ring.fill(weight, run.unit / row_tiles * kUnitMTiles, rows, run.unit % row_tiles,
                              segment.first + tile, left < Ring::kTiles ? left : Ring::kTiles);
                    ring.advance();
                }
            }
        }
    }

    __device__ void multiply_all(const Block& block, Ring ring) const {
        GroupRun run;
#pragma unroll 1
        for (int turn = 0; !(run = work.run(static_cast<int>(block.index), turn)).is_empty(); ++turn) {
            float totals[Sums::kValues] = {};
#pragma unroll 1
            for (int i = run.first; i < run.end; ++i) {
                Sums sums = {};
                sums.add(ring, segment_of(weight, i).tiles, block.warp(), block.lane());
                if (run.first == 0) {
#pragma unroll
                    for (int value = 0; value < Sums::kValues; ++value) {
                        totals[value] = i == 0 ? sums.values[value] : totals[value] + sums.values[value];
                    }
                } else {
                    store_part(block, i, sums.values);
                }
            }
            finish(block, run, totals);
        }
    }

    /// Writes the unit's outputs. If several blocks share the unit, each stores its part, and the last one
    /// adds up all parts and writes.
    __device__ void finish(const Block& block, const GroupRun& run,
                           const float (&totals)[Sums::kValues]) const {
        if (run.first == 0 && run.end == work.segments) {
            write(block, run, [&](int quad) { return quad_of(totals, quad); });
            return;
        }
        if (run.first == 0) {
            store_part(block, 0, totals);
        }
        if (arrives_last(block, run)) {
            write_parts(block, run);
        }
    }

    template <typename TotalOf>
    __device__ void write(const Block& block, const GroupRun& run, const TotalOf& total_of) const {
        Outputs{op, weight}.write(block, {run.unit / row_tiles, run.unit % row_tiles, 0}, total_of);
    }

    __device__ static Quad quad_of(const float (&values)[Sums::kValues], int quad) {
        return {{values[4 * quad], values[4 * quad + 1], values[4 * quad + 2], values[4 * quad + 3]}};
    }

    /// The place of a part. A block stores the total of its segments from a unit's first one on as part 0,
    /// and the sum of any other segment as the part of that number. So the parts of the unit that it ends and
    /// of the one that it begins do not collide.
    __device__ Quad* part_of(int block_index, int part, int thread) const {
        return reinterpret_cast<Quad*>(op.scratch + kCutCounters) +
               (int64_t{block_index} * kSegments + part) * (kQuads * kReaders) + thread;
    }

    __device__ void store_part(const Block& block, int part, const float (&values)[Sums::kValues]) const {
        Quad* const kept = part_of(static_cast<int>(block.index), part, block.thread);
#pragma unroll
        for (int quad = 0; quad < kQuads; ++quad) {
            kept[quad * kReaders] = quad_of(values, quad);
        }
    }

    /// The item of the unit's first segment.
    __device__ int first_item_of(const GroupRun& run) const {
        return (run.unit - work.whole() * work.blocks) * work.segments;
    }

    /// There are fewer shared units than blocks, so at most one of them begins in each block, whose counter
    /// it uses.
    __device__ bool arrives_last(const Block& block, const GroupRun& run) const {
        auto& flag = *reinterpret_cast<uint32_t*>(block.shared + Ring::kBytes);
        synchronize_first<kReaders>();  // all have stored their part, and read the previous run's flag
        if (block.thread == 0) {
            auto* const counter = reinterpret_cast<uint32_t*>(op.scratch) + work.block_of(first_item_of(run));
            const auto segments = static_cast<uint32_t>(run.end - run.first);
            publish_writes();
            flag = arrive(counter, segments) + segments == static_cast<uint32_t>(work.segments) ? 1 : 0;
            if (flag != 0) {
                *counter = 0;  // for the next product
            }
            publish_writes();
        }
        synchronize_first<kReaders>();
        return flag != 0;
    }

    /// Adds up the parts in the order of the segments.
    __device__ void write_parts(const Block& block, const GroupRun& run) const {
        const int item = first_item_of(run);
        const int first_block = work.block_of(item);
        const int prefix = work.first_item(first_block + 1) - item;  // segments in part 0
        const Quad* parts[kSegments];
#pragma unroll
        for (int i = 0; i < kSegments; ++i) {
            const bool is_apart = i >= prefix && i < work.segments;
            parts[i] = is_apart ? part_of(work.block_of(item + i), i, block.thread)
                                : part_of(first_block, 0, block.thread);
        }
        Quad totals[kAtOnce];
        write(block, run, [&](int quad) {
            if (quad % kAtOnce == 0) {
                add_parts(parts, quad, prefix, totals);
            }
            return totals[quad % kAtOnce];
        });
    }

    /// Loads the parts of some outputs, all before the first addition.
    __device__ void add_parts(const Quad* const (&parts)[kSegments], int first, int prefix,
                              Quad (&totals)[kAtOnce]) const {
        Quad sums[kSegments][kAtOnce];
#pragma unroll
        for (int i = 0; i < kSegments * kAtOnce; ++i) {
            const Quad* const part = parts[i / kAtOnce] + (first + i % kAtOnce) * kReaders;
            sums[i / kAtOnce][i % kAtOnce] = bit_cast<Quad>(load_written_words(part));
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            totals[i] = sums[0][i];
#pragma unroll
            for (int segment = 1; segment < kSegments; ++segment) {
                totals[i] =
                    segment >= prefix && segment < work.segments ? totals[i] + sums[segment][i] : totals[i];
            }
        }
    }
};

}  // namespace outrider::cuda
