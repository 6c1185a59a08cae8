// Selection: the best tokens of a row, ordered by `is_better`.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/scored.h"

namespace outrider {

/// The `wanted` best entries above minus infinity, or as many as there are, best first.  # values: [count]
void select_best(const float* values, int count, int64_t wanted, std::vector<Scored>* best);

/// The rank of a token in that order, from 1.  # values: [count]
int32_t rank_of(int32_t token_id, const float* values, int count);

}  // namespace outrider
