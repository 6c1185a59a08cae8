// gather_by_expert: groups the rows by expert.
#pragma once

#include "outrider/device/expert_operations.h"

namespace outrider::cpu {

/// Writes `places`, `gathered` and `first_rows` of the routing, from the experts of each row.
void gather_by_expert(const Routing& routing, int rows);

}  // namespace outrider::cpu
