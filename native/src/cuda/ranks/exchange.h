// The exchange of columns between devices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/runtime/stream.h"
#include "outrider/device/rank_link.h"

namespace outrider::cuda {

/// The most blocks of threads of an exchange.
constexpr int kMostExchangeBlocks = 64;

/// The memory of all ranks through which they exchange columns, as one of them sees it.
struct Mailboxes {
    Rank rank;
    char* rows[kMostRanks];       // of each rank: two halves that take turns
    uint32_t* turns[kMostRanks];  // of each rank: that of each block of each rank  # [ranks, blocks]
    uint32_t* own_turns;          // [blocks]
    size_t half_bytes;
    /// Blocks of threads of each exchange: as many for a large one as for a small one, so that each block of a rank has
    /// the same number of turns as that block of its peers. All of them must be on the GPU at the same time.
    int blocks;
    bool are_on_one_gpu;  // some of the ranks, in tests
};

/// Throws std::invalid_argument unless the ranks' ranges begin at multiples of four bytes.
void exchange(const Stream& stream, const ExchangeColumns& op, const Mailboxes& boxes);

}  // namespace outrider::cuda
