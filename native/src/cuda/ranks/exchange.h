// The exchange of columns between devices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/runtime/stream.h"
#include "outrider/device/rank_link.h"

namespace outrider::cuda {

/// Blocks of threads of each exchange: as many for a large one as for a small one, so that each block of a rank has the
/// same number of turns as the same block of its peers.
constexpr int kExchangeBlocks = 64;

/// The memory of all ranks through which they exchange columns, as one of them sees it.
struct Mailboxes {
    Rank rank;
    char* rows[kMostRanks];       // of each rank: two halves that take turns
    uint32_t* turns[kMostRanks];  // of each rank: that of each block of each rank  # [ranks, kExchangeBlocks]
    uint32_t* own_turns;          // [kExchangeBlocks]
    size_t half_bytes;
    bool are_on_one_gpu;  // some of the ranks, in tests
};

void exchange(const Stream& stream, const ExchangeColumns& op, const Mailboxes& boxes);

}  // namespace outrider::cuda
