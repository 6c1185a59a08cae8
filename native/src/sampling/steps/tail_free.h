// Tail-free sampling: cuts the ranked tokens where the curve of their probabilities becomes flat.
#pragma once

#include <limits>

#include "outrider/device/host_device.h"

namespace outrider {

/// The absolute second difference of the ranked masses at a place.
template <typename Row>
struct Bend {
    const Row& row;

    OUTRIDER_HOST_OR_DEVICE uint64_t operator()(int64_t place) const {
        if (place + 2 >= row.num_ranked()) {
            return 0;
        }
        const auto bend =
            static_cast<int64_t>(row.mass(place) - 2 * row.mass(place + 1) + row.mass(place + 2));
        return static_cast<uint64_t>(bend < 0 ? -bend : bend);
    }
};

/// Keeps the tokens before the one at which the cumulative share of the bends exceeds z; the best token
/// always stays, and without any bend all stay. (Phenix, "Tail Free Sampling", 2019,
/// trentbrick.github.io/Tail-Free-Sampling.)
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_tail_free(Row& row, double z) {
    row.rank();
    const Bend<Row> bend{row};
    const auto total = static_cast<double>(row.sum_ranked(bend));
    if (total > 0) {
        row.change_ranked(bend, [=](int64_t place, float value, uint64_t, uint64_t through) {
            const bool stays = place == 0 || static_cast<double>(through) <= z * total;
            return stays ? value : -std::numeric_limits<float>::infinity();
        });
    }
}

}  // namespace outrider
