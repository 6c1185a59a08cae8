// MixedAttention: computes prompt rows and decoding rows, each with the kernel that suits them.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cuda/attention/attend_works.cuh"
#include "cuda/attention/prompt_attention.cuh"
#include "cuda/attention/tile_attention.cuh"

namespace outrider::cuda {

/// The blocks share the works of a WorkList with groups as long as PromptAttention's; TileAttention computes
/// those that fit into one tile.
template <KvFormat kFormat>
struct MixedAttention {
    using Tile = TileAttention<kFormat, false>;
    using Prompt = PromptAttention<kFormat>;
    static constexpr int kThreads = Tile::kThreads;
    static_assert(kThreads == Prompt::kThreads, "both have the block's threads");
    static constexpr int kBlocksPerMultiprocessor = 1;
    static constexpr bool kIsReferenced = true;
    using WaitsItself = void;

    Tile tile;
    Prompt prompt;

    static Grouping grouping_of(const Attention& op) { return grouping_of_tiles(op, kPromptTiles); }

    __device__ void operator()(const Block& block) const {
        attend_works<kThreads>(block, tile.op, tile.grouping, tile.sharing,
                               [&](const Work& work, char* memory, int& flag) {
                                   if (work.group.rows > kTileQueries / work.group.heads) {
                                       attend_work(block, prompt, work, memory, flag);
                                   } else {
                                       attend_work(block, tile, work, memory, flag);
                                   }
                               });
    }
};

}  // namespace outrider::cuda
