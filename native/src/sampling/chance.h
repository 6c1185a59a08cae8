// How likely another model makes the same coupled draw.
#pragma once

#include <cmath>

#include "sampling/portable_math.h"

namespace outrider {

/// The share of a small model's draws, by how much each beat the runner-up (in logits at the temperature,
/// noise included), that its larger model made too: a logistic curve, as it was measured on a 0.5B and a 1.5B
/// model at temperatures of 0 and 0.7.
inline double chance_of(double margin) {
    constexpr double kOffset = -0.5;
    constexpr double kSlope = 1.0;
    const double logit = kOffset + kSlope * margin;
    const double power = portable_exp(-std::abs(logit));
    return (logit < 0 ? power : 1.0) / (1 + power);
}

}  // namespace outrider
