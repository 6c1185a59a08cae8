// LowRankPart: one task of a low-rank update.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/device/low_rank.h"

namespace outrider::cpu {

/// A range of an update's rows, and of its ranks (down) or columns (up).
struct LowRankPart {
    const LowRankUpdate* update;
    int64_t first_row;
    int64_t end_row;
    int64_t first;
    int64_t end;
};

/// The parts of the down products of all updates, and of the up products, which run after all down products.
std::vector<LowRankPart> down_parts(const LowRank& op);
std::vector<LowRankPart> up_parts(const LowRank& op);

}  // namespace outrider::cpu
