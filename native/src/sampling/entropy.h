// The entropy of a softmax, from two sums over the row.
#pragma once

#include "outrider/device/host_device.h"
#include "sampling/portable_math.h"

namespace outrider {

/// (value - best) * exp(value - best), for one number or for eight; 0 where exp is 0, as at minus infinity.
template <typename Number>
OUTRIDER_HOST_DEVICE inline Number weighted_exp(Number difference) {
    const Number weighted = difference * portable_exp(difference);
    return difference < -708.0 ? Number{} : weighted;
}

/// The entropy in nats: -sum p log p = log sum e^d - (sum d e^d) / sum e^d with d = value - best.
OUTRIDER_HOST_DEVICE inline double entropy_of(double sum, double weighted_sum) {
    return portable_log(sum) - weighted_sum / sum;
}

}  // namespace outrider
