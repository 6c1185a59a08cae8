// attend: attention over a cache of one format, which a file of its own compiles.
#pragma once

#include <algorithm>

#include "cuda/attention/attention.h"
#include "cuda/attention/float_attention.cuh"
#include "cuda/attention/tile_attention.cuh"
#include "cuda/primitives/launch.cuh"

namespace outrider::cuda {

constexpr int kFewRows = 64;

template <typename Kernel>
void attend(const Stream& stream, const Kernel& kernel, const Grouping& grouping, size_t shared_bytes) {
    const int64_t groups = int64_t{kernel.op.places.rows} * grouping.num_head_groups(kernel.op);
    for_each_block(stream, groups * std::max(kernel.spans, 1), shared_bytes, kernel);
}

template <KvFormat kFormat, int kTiles, bool kIsCapped>
void attend_in_tiles(const Stream& stream, const Attention& op, int spans) {
    const TileAttention<kFormat, kTiles, kIsCapped> kernel(op, spans);
    attend(stream, kernel, kernel.grouping, TileAttentionScratch<kTiles>::bytes(op.cache.head_dim));
}

/// Chooses a number of tiles by speed only: all give the same bits. Many rows are long runs of a sequence's,
/// where more queries for each key and value are worth what registers and memory a block can have.
template <KvFormat kFormat>
void attend(const Stream& stream, const Attention& op, int spans) {
    const bool is_capped = op.softcap != 0.0f;
    if (!is_tiled(op.cache.format, op.cache.head_dim)) {
        attend(stream, FloatAttention<kFormat>{op, spans}, FloatAttention<kFormat>::grouping(),
               FloatScratch::bytes(op.cache.head_dim));
    } else if constexpr (kFormat != KvFormat::f32) {
        if (op.places.rows <= kFewRows) {
            is_capped ? attend_in_tiles<kFormat, 1, true>(stream, op, spans)
                      : attend_in_tiles<kFormat, 1, false>(stream, op, spans);
        } else if (is_capped) {
            attend_in_tiles<kFormat, 2, true>(stream, op, spans);
        } else if (op.cache.head_dim <= 128) {
            attend_in_tiles<kFormat, 3, false>(stream, op, spans);
        } else {
            attend_in_tiles<kFormat, 2, false>(stream, op, spans);
        }
    }
}

}  // namespace outrider::cuda
