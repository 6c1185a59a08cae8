// TileQueries: queries as the left operands of an mma_m16n8k16.
#pragma once

#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/kv_block.cuh"
#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {

constexpr int kTileQueries = 16;  // rows of the instruction
constexpr int kSteps = 2;         // instructions per 32 of K: dimensions of keys, or a block's positions
constexpr int kUnitDims = 32;

inline OUTRIDER_HOST_DEVICE int units_of(int head_dim) {
    return (head_dim + kUnitDims - 1) / kUnitDims;
}

/// Groups all heads that share keys, if they fit into a tile, and as many rows as then fit into `tiles`
/// tiles.
inline Grouping grouping_of_tiles(const Attention& op, int tiles) {
    const int each = op.num_heads / op.cache.num_kv_heads;
    const int groups = (each + kTileQueries - 1) / kTileQueries;
    const int heads = (each + groups - 1) / groups;
    return Grouping::of(op, kTileQueries / heads * tiles, heads);
}

/// Four dimensions of a query, rounded to bf16; zeros for a query or dimension that does not exist.
__device__ inline Words<2> four_dims(const Attention& op, const Group& group, int query, int dim) {
    if (query >= group.queries() || dim >= op.cache.head_dim) {
        return {};
    }
    const float* heads = op.qkv + group.row(query) * op.qkv_stride;
    const Words<4> from = load_words<4, false>(heads + group.head(query) * op.cache.head_dim + dim);
    const auto value = [&](int i) { return bit_cast<float>(from.words[i]); };
    return {{bfloat16_pair(value(0), value(1)), bfloat16_pair(value(2), value(3))}};
}

/// A lane's operand: its part of a tile's queries in a step.  # index in [units, kSteps, kWarp]
__device__ inline Words<4> query_operand(const Attention& op, const Group& group, int index) {
    const int lane = index % kWarp;
    const int step = index / kWarp;
    const int dim = step / kSteps * kUnitDims + lane % 4 * kFragmentSize + step % kSteps * 4;
    const Words<2> upper = four_dims(op, group, lane / 4, dim);
    const Words<2> lower = four_dims(op, group, lane / 4 + 8, dim);
    return {{upper.words[0], lower.words[0], upper.words[1], lower.words[1]}};
}

}  // namespace outrider::cuda
