// RowFigures: the sums over a row from which probabilities and entropies are computed.
#pragma once

#include <limits>

#include "outrider/device/host_device.h"
#include "sampling/entropy.h"
#include "sampling/portable_math.h"

namespace outrider {

struct Exponential {
    template <typename Number>
    OUTRIDER_HOST_DEVICE Number operator()(const Number& difference) const {
        return portable_exp(difference);
    }
};

struct CountedToken {
    template <typename Number>
    OUTRIDER_HOST_DEVICE Number operator()(const Number& difference) const {
        return difference > -std::numeric_limits<double>::infinity() ? Number{} + 1.0 : Number{};
    }
};

struct WeightedExponential {
    template <typename Number>
    OUTRIDER_HOST_DEVICE Number operator()(const Number& difference) const {
        return weighted_exp(difference);
    }
};

/// A value's probability relative to the best token's.
OUTRIDER_HOST_DEVICE inline double weight_of(float value, float best) {
    return portable_exp(static_cast<double>(value) - static_cast<double>(best));
}

/// The sum of all weights, relative to the best token's weight.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE double sum_of_weights(Row& row) {
    return row.sum(Exponential());
}

/// The entropy in nats, at least 0.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE double entropy_of_row(Row& row) {
    const double entropy = entropy_of(row.sum(Exponential()), row.sum(WeightedExponential()));
    return entropy > 0 ? entropy : 0;
}

}  // namespace outrider
