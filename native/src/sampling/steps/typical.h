// Typical sampling: keeps the tokens whose surprise is nearest to the expected surprise.
#pragma once

#include <limits>

#include "sampling/steps/row_figures.h"

namespace outrider {

/// The distance of a token's surprise from the entropy; both are measured from the best token's surprise.
struct Atypicality {
    float best;
    double expected;

    /// Maps the distances, which are at least 0, to integers in the same order.
    OUTRIDER_HOST_DEVICE uint64_t operator()(float value) const {
        const double distance = (static_cast<double>(best) - static_cast<double>(value)) - expected;
        return bit_cast<uint64_t>(distance < 0 ? -distance : distance + 0.0);
    }
};

/// Keeps the nearest tokens whose cumulative probability reaches p, and all that are as distant as the last.
/// Meister, Pimentel, Wiher, Cotterell, "Locally Typical Sampling", arXiv 2202.00666.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_typical(Row& row, double p) {
    const double expected = -row.sum(WeightedExponential()) / sum_of_weights(row);
    const Atypicality atypicality{row.best(), expected};
    const uint64_t last = row.last_key_of_share(atypicality, p);
    row.change([=](int64_t, float value) {
        return atypicality(value) <= last ? value : -std::numeric_limits<float>::infinity();
    });
}

}  // namespace outrider
