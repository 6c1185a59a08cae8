// Selection: the best tokens of a row, in the one order that all of the sampler uses.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/device/host_device.h"

namespace outrider {

struct Scored {
    float value;
    int32_t token_id;
};

/// The order of candidates: by value, ties by lowest id.
OUTRIDER_HOST_DEVICE inline bool is_better(const Scored& a, const Scored& b) {
    return a.value > b.value || (a.value == b.value && a.token_id < b.token_id);
}

/// The `wanted` best entries above minus infinity (fewer where there are fewer), best first.  # values:
/// [count]
void select_best(const float* values, int count, int64_t wanted, std::vector<Scored>* best);

/// The place of a token in that order, from 1.  # values: [count]
int32_t rank_of(int32_t token_id, const float* values, int count);

}  // namespace outrider
