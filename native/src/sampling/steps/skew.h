// Skew: changes the probabilities to those of a draw by a skewed random number in rank order.
#pragma once

#include <limits>

#include "outrider/device/host_device.h"
#include "sampling/steps/temperature.h"

namespace outrider {

template <typename Row>
struct RankedMass {
    const Row& row;

    OUTRIDER_HOST_OR_DEVICE uint64_t operator()(int64_t place) const { return row.mass(place); }
};

/// With r uniform, r^exp(-skew) is below F with probability F^exp(skew): a token between the cumulative
/// probabilities F and G, best first, is drawn with probability G^exp(skew) - F^exp(skew). (exllamav2's
/// `skew`.)
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void apply_skew(Row& row, double skew) {
    row.rank();
    const RankedMass<Row> mass{row};
    const auto total = static_cast<double>(row.sum_ranked(mass));
    const double exponent = skew > 0 ? 1 / portable_exp(-skew) : portable_exp(skew);
    row.change_ranked(mass, [=](int64_t, float, uint64_t before, uint64_t through) {
        const double below = before > 0 ? power_of(static_cast<double>(before) / total, exponent) : 0;
        const double share = power_of(static_cast<double>(through) / total, exponent) - below;
        return share > 1e-300 ? static_cast<float>(portable_log(share))
                              : -std::numeric_limits<float>::infinity();
    });
}

}  // namespace outrider
