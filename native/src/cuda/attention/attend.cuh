// attend: attention over a cache of one format; each format is compiled in a file of its own.
#pragma once

#include <algorithm>

#include "cuda/attention/attention.h"
#include "cuda/attention/float_attention.cuh"
#include "cuda/attention/mixed_attention.cuh"
#include "cuda/attention/tile_attention.cuh"
#include "cuda/primitives/launch.cuh"

namespace outrider::cuda {

constexpr int kMostTileRows = 64;

/// The number of places for parts, counted in rows; 0 if no context has more than one span, as works are then
/// not split.
inline int most_parts(int rows, int max_blocks) {
    const int64_t spans = spans_of(max_blocks);
    const int64_t wanted = rows * (spans + spans / kStretch + 2);
    return spans > 1 ? static_cast<int>(std::min(int64_t{kMostParts}, wanted)) : 0;
}

template <typename Kernel>
size_t shared_bytes(const Attention& op, const Depth& depth) {
    return WorkList<Kernel::kThreads>::bytes() + Kernel::Scratch::bytes(op.cache.head_dim, depth) +
           Kernel::copy_bytes(depth.stages);
}

/// Chooses as many blocks per multiprocessor as there is work for, then as many stages and as few merges as
/// fit into memory.
template <typename Kernel>
Depth depth_of(const Stream& stream, const Attention& op, int64_t works) {
    constexpr size_t kReserved = 1 << 10;  // shared memory reserved for each block, in bytes
    constexpr Depth kLeast{1, kFewestStages, 1};
    const int most = works > stream.multiprocessors() ? Kernel::kBlocksPerMultiprocessor : 1;
    for (int blocks = most; blocks > 0; --blocks) {
        for (const int stages : {8, 4, 3, 2}) {
            for (const int round_units : {4, 2, 1}) {
                const Depth depth{blocks, stages, round_units};
                if (blocks * (shared_bytes<Kernel>(op, depth) + kReserved) <=
                    stream.block_memory() + kReserved) {
                    return depth;
                }
            }
        }
    }
    return kLeast;
}

inline Sharing share_works(const Stream& stream, const Attention& op, int64_t works, int blocks) {
    const int64_t fitting = int64_t{stream.multiprocessors()} * blocks;
    return {static_cast<int>(std::min(fitting, works)), most_parts(op.places.rows, op.places.max_blocks)};
}

/// An upper bound on the number of works.
inline int64_t works_of(const Attention& op, const Grouping& grouping) {
    return int64_t{op.places.rows} * grouping.head_groups * spans_of(op.places.max_blocks);
}

template <typename Kernel>
void attend_with(const Stream& stream, const Attention& op) {
    const Grouping grouping = Kernel::grouping_of(op);
    const int64_t works = works_of(op, grouping);
    const Depth depth = depth_of<Kernel>(stream, op, works);
    const Sharing sharing = share_works(stream, op, works, depth.blocks);
    for_each_block(stream, sharing.blocks, shared_bytes<Kernel>(op, depth),
                   Kernel{op, sharing, grouping, depth});
}

template <typename Kernel>
size_t prompt_bytes(const Attention& op) {
    return WorkList<Kernel::kThreads>::bytes() + Kernel::Prompt::bytes(op);
}

template <typename Kernel>
void attend_mixed(const Stream& stream, const Attention& op) {
    const Grouping grouping = Kernel::grouping_of(op);
    const Depth depth = depth_of<typename Kernel::Tile>(stream, op, 1);
    const Sharing sharing = share_works(stream, op, works_of(op, grouping), depth.blocks);
    const size_t bytes = std::max(shared_bytes<typename Kernel::Tile>(op, depth), prompt_bytes<Kernel>(op));
    for_each_block(stream, sharing.blocks, bytes, Kernel{{op, sharing, grouping, depth}, {op, depth}});
}

/// Chooses the fastest kernel; all kernels on tensor cores give the same bits.
template <KvFormat kFormat>
void attend(const Stream& stream, const Attention& op) {
    if (!is_tiled(op.cache.format, op.cache.head_dim)) {
        attend_with<FloatAttention<kFormat>>(stream, op);
    } else if constexpr (kFormat != KvFormat::f32) {
        using Mixed = MixedAttention<kFormat>;
        if (op.cache.latent_rank > 0) {
            attend_with<TileAttention<kFormat, false, true>>(stream, op);
        } else if (op.softcap != 0.0f) {
            attend_with<TileAttention<kFormat, true>>(stream, op);
        } else if (op.places.rows > kMostTileRows && op.cache.head_dim <= kMostPromptDims &&
                   prompt_bytes<Mixed>(op) <= stream.block_memory()) {
            attend_mixed<Mixed>(stream, op);
        } else {
            attend_with<TileAttention<kFormat, false>>(stream, op);
        }
    }
}

}  // namespace outrider::cuda
