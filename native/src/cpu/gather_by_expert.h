// gather_by_expert: the rows of each expert next to one another.
#pragma once

#include "outrider/device/expert_operations.h"

namespace outrider::cpu {

/// Writes the places, the gathered rows and where each expert's begin, from the experts of the rows.
void gather_by_expert(const Routing& routing, int rows);

}  // namespace outrider::cpu
