// The gates of the gated delta rule, in double precision without the C library: the same bits on every machine.
#pragma once

#include "outrider/device/host_device.h"
#include "sampling/portable_math.h"

namespace outrider {

/// sigmoid(b): the share of the new value that a state takes.
OUTRIDER_HOST_DEVICE inline float delta_rate(double b) {
    const double power = portable_exp(b < 0.0 ? b : -b);
    return static_cast<float>((b < 0.0 ? power : 1.0) / (1.0 + power));
}

/// e^(-e^decay_log * softplus(x)): what remains of a state.
OUTRIDER_HOST_DEVICE inline float delta_decay(double decay_log, double x) {
    const double above = x > 0.0 ? x : 0.0;
    const double softplus = above + portable_log(1.0 + portable_exp(x < 0.0 ? x : -x));
    const double speed = decay_log > 0.0 ? 1.0 / portable_exp(-decay_log) : portable_exp(decay_log);
    return static_cast<float>(portable_exp(-speed * softplus));
}

}  // namespace outrider
