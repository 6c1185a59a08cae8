// attend: attention over a cache of one format, which a file of its own compiles.
#pragma once

#include <algorithm>

#include "cuda/attention/attention.h"
#include "cuda/attention/float_attention.cuh"
#include "cuda/attention/tile_attention.cuh"
#include "cuda/primitives/launch.cuh"

namespace outrider::cuda {

constexpr int kFewRows = 64;
constexpr int kFewSpans = 16;

/// Where no context has more than one span, all works are whole.
inline int most_parts(int rows, int max_blocks) {
    const int64_t spans = spans_of(max_blocks);
    const int64_t wanted = rows * (spans + spans / kStretch + 2);
    return spans > 1 ? static_cast<int>(std::min(int64_t{kMostParts}, wanted)) : 0;
}

template <typename Kernel>
size_t shared_bytes(const Attention& op, int stages) {
    return WorkList<Kernel::kThreads>::bytes() + Kernel::Scratch::bytes(op.cache.head_dim) +
           Kernel::copy_bytes(stages);
}

/// How a multiprocessor's memory is used.
struct Depth {
    int blocks;  // of a multiprocessor
    int stages;  // of copies
};

/// As many blocks as there is work for, then as many stages as they have memory for.
template <typename Kernel>
Depth depth_of(const Stream& stream, const Attention& op, int64_t works) {
    constexpr size_t kReserved = 1 << 10;  // bytes of a multiprocessor's memory, for each of its blocks
    const int most = works > stream.multiprocessors() ? Kernel::kBlocksPerMultiprocessor : 1;
    for (int blocks = most; blocks > 0; --blocks) {
        for (const int stages : {8, 4, 3, 2}) {
            if (blocks * (shared_bytes<Kernel>(op, stages) + kReserved) <=
                stream.block_memory() + kReserved) {
                return {blocks, stages};
            }
        }
    }
    return {1, kFewestStages};
}

template <typename Kernel>
void attend_with(const Stream& stream, const Attention& op) {
    const Grouping grouping = Kernel::grouping_of(op);
    const int64_t works = int64_t{op.places.rows} * grouping.head_groups * spans_of(op.places.max_blocks);
    const Depth depth = depth_of<Kernel>(stream, op, works);
    const int64_t fitting = int64_t{stream.multiprocessors()} * depth.blocks;
    const Sharing sharing{static_cast<int>(std::min(fitting, works)),
                          most_parts(op.places.rows, op.places.max_blocks)};
    for_each_block(stream, sharing.blocks, shared_bytes<Kernel>(op, depth.stages),
                   Kernel{op, sharing, grouping, depth.stages});
}

/// Whether two tiles may be worth more than more blocks: where rows are many, which are long runs of a
/// sequence's, and where a few follow a long context, which is then read half as often.
inline bool shares_keys(const Attention& op, int rows_of_tile) {
    const int rows = op.places.rows;
    return rows > kFewRows || (rows > rows_of_tile && spans_of(op.places.max_blocks) >= kFewSpans);
}

/// Chooses a number of tiles by speed only: all give the same bits.
template <KvFormat kFormat>
void attend(const Stream& stream, const Attention& op) {
    const bool is_capped = op.softcap != 0.0f;
    if (!is_tiled(op.cache.format, op.cache.head_dim)) {
        attend_with<FloatAttention<kFormat>>(stream, op);
    } else if constexpr (kFormat != KvFormat::f32) {
        using Two = TileAttention<kFormat, 2, false>;
        using One = TileAttention<kFormat, 1, false>;
        const bool is_long = shares_keys(op, One::grouping_of(op).rows) &&
                             shared_bytes<Two>(op, kFewestStages) <= stream.block_memory();
        if (is_capped) {  // the code of two tiles would be too long
            attend_with<TileAttention<kFormat, 1, true>>(stream, op);
        } else {
            is_long ? attend_with<Two>(stream, op) : attend_with<One>(stream, op);
        }
    }
}

}  // namespace outrider::cuda
