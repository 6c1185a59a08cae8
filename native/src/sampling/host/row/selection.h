// Selection: the best tokens of a row, in the one order that all of the sampler uses.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/scored.h"

namespace outrider {

/// The `wanted` best entries above minus infinity (fewer where there are fewer), best first.  # values:
/// [count]
void select_best(const float* values, int count, int64_t wanted, std::vector<Scored>* best);

/// The place of a token in that order, from 1.  # values: [count]
int32_t rank_of(int32_t token_id, const float* values, int count);

}  // namespace outrider
