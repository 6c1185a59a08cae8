// attend: attention over a cache of one format, which a file of its own compiles.
#pragma once

#include <algorithm>

#include "cuda/attention/attention.h"
#include "cuda/attention/float_attention.cuh"
#include "cuda/attention/tile_attention.cuh"
#include "cuda/primitives/launch.cuh"

namespace outrider::cuda {

constexpr int kFewRows = 64;

/// Where no context has more than one span, all works are whole.
inline int64_t most_parts(int rows, int max_blocks) {
    const int64_t spans = spans_of(max_blocks);
    return spans > 1 ? std::min(kMostParts, rows * (spans + spans / kStretch + 2)) : 0;
}

template <typename Kernel>
size_t shared_bytes(const Attention& op) {
    return WorkList<Kernel::kThreads>::bytes() + Kernel::Scratch::bytes(op.cache.head_dim);
}

template <typename Kernel>
void attend_with(const Stream& stream, const Attention& op) {
    const Grouping grouping = Kernel::grouping_of(op);
    const int64_t fitting = int64_t{stream.multiprocessors()} * Kernel::kBlocksPerMultiprocessor;
    const int64_t works =
        int64_t{op.places.rows} * grouping.num_head_groups(op) * spans_of(op.places.max_blocks);
    const Sharing sharing{std::min(fitting, works), most_parts(op.places.rows, op.places.max_blocks)};
    for_each_block(stream, sharing.blocks, shared_bytes<Kernel>(op), Kernel{op, sharing, grouping});
}

/// Chooses a number of tiles by speed only: all give the same bits. Many rows are long runs of a sequence's,
/// where more queries for each key and value are worth what registers and memory a block can have.
template <KvFormat kFormat>
void attend(const Stream& stream, const Attention& op) {
    const bool is_capped = op.softcap != 0.0f;
    if (!is_tiled(op.cache.format, op.cache.head_dim)) {
        attend_with<FloatAttention<kFormat>>(stream, op);
    } else if constexpr (kFormat != KvFormat::f32) {
        constexpr int kMostCapped = kFormat == KvFormat::bf16 ? 2 : 1;  // or the code would be too long
        using Two = TileAttention<kFormat, 2, false>;
        const bool is_long = op.places.rows > kFewRows && shared_bytes<Two>(op) <= stream.block_memory();
        if (is_capped) {
            is_long ? attend_with<TileAttention<kFormat, kMostCapped, true>>(stream, op)
                    : attend_with<TileAttention<kFormat, 1, true>>(stream, op);
        } else if (!is_long) {
            attend_with<TileAttention<kFormat, 1, false>>(stream, op);
        } else if (op.cache.head_dim <= 128) {
            attend_with<TileAttention<kFormat, 3, false>>(stream, op);
        } else {
            attend_with<Two>(stream, op);
        }
    }
}

}  // namespace outrider::cuda
