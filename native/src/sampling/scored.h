// Scored: a token and its value, with the order of candidates.
#pragma once

#include <cstdint>

#include "outrider/device/host_device.h"

namespace outrider {

struct Scored {
    float value;
    int32_t token_id;
};

/// The order of candidates throughout the sampler: by value, ties by lowest id.
OUTRIDER_HOST_DEVICE inline bool is_better(const Scored& a, const Scored& b) {
    return a.value > b.value || (a.value == b.value && a.token_id < b.token_id);
}

}  // namespace outrider
