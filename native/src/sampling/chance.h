// The probability that another model makes the same coupled draw.
#pragma once

#include <cmath>

#include "sampling/portable_math.h"

namespace outrider {

/// The probability that a larger model makes the same draw as a small one, given the margin by which the draw
/// beat the runner-up (in logits divided by the temperature, noise included). A logistic curve, measured with
/// models of 0.5B and 1.5B parameters at temperatures 0 and 0.7.
inline double chance_of(double margin) {
    constexpr double kOffset = -0.5;
    constexpr double kSlope = 1.0;
    const double logit = kOffset + kSlope * margin;
    const double power = portable_exp(-std::abs(logit));
    return (logit < 0 ? power : 1.0) / (1 + power);
}

}  // namespace outrider
