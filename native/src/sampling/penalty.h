// Penalties on a token of the history.
#pragma once

#include "outrider/device/host_device.h"
#include "outrider/sampling/sampling_params.h"

namespace outrider {

/// The logit of a token of prompt or generation, which was generated so many times.
OUTRIDER_HOST_DEVICE inline float penalised(float logit, int generated, const SamplingNumbers& numbers) {
    logit = logit > 0 ? logit / numbers.repetition_penalty : logit * numbers.repetition_penalty;
    logit -= numbers.frequency_penalty * static_cast<float>(generated);
    return generated > 0 ? logit - numbers.presence_penalty : logit;
}

}  // namespace outrider
