// Penalties on a token of the history.
#pragma once

#include "outrider/device/host_device.h"

namespace outrider {

struct Penalties {
    float repetition;
    float frequency;
    float presence;
};

/// The logit of a token of prompt or generation, which was generated so many times.
OUTRIDER_HOST_DEVICE inline float penalised(float logit, int generated, const Penalties& penalties) {
    logit = logit > 0 ? logit / penalties.repetition : logit * penalties.repetition;
    logit -= penalties.frequency * static_cast<float>(generated);
    return generated > 0 ? logit - penalties.presence : logit;
}

}  // namespace outrider
