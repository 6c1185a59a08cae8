// Cut-offs: steps that keep the tokens above a probability threshold. The best token always stays.
#pragma once

#include <cmath>
#include <limits>

#include "sampling/steps/row_figures.h"

namespace outrider {

/// Keeps the tokens with at least this part of the best token's probability.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_at_least(Row& row, double part) {
    const float best = row.best();
    const double least = part < 1 ? part : 1;
    row.change([=](int64_t, float value) {
        return weight_of(value, best) >= least ? value : -std::numeric_limits<float>::infinity();
    });
}

/// "Top-a": the threshold is a times the square of the best token's probability (github.com/BlinkDL/RWKV-LM).
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_top_a(Row& row, double a) {
    keep_at_least(row, a / sum_of_weights(row));
}

/// Epsilon sampling: the threshold is epsilon. Hewitt, Manning, Liang, "Truncation Sampling as Language Model
/// Desmoothing", arXiv 2210.15191.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_epsilon(Row& row, double epsilon) {
    keep_at_least(row, epsilon * sum_of_weights(row));
}

/// Eta sampling: the threshold is lower where the distribution is flat: min(epsilon, sqrt(epsilon) *
/// exp(-entropy)), ibid.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_eta(Row& row, double epsilon) {
    const double flat = std::sqrt(epsilon) * portable_exp(-entropy_of_row(row));
    keep_epsilon(row, flat < epsilon ? flat : epsilon);
}

}  // namespace outrider
