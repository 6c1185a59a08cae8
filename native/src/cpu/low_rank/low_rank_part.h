// LowRankPart: what one task of a low-rank update computes.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/device/low_rank.h"

namespace outrider::cpu {

/// Some of the rows of an update, by some of its ranks, or of its columns.
struct LowRankPart {
    const LowRankUpdate* update;
    int64_t first_row;
    int64_t end_row;
    int64_t first;
    int64_t end;
};

/// The parts of the first product of all updates, and of the second, which needs all of the first.
std::vector<LowRankPart> down_parts(const LowRank& op);
std::vector<LowRankPart> up_parts(const LowRank& op);

}  // namespace outrider::cpu
