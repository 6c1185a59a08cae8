// Ranked cuts: top-k, top-p and XTC, which cut the order by value at one place.
#pragma once

#include <limits>

#include "outrider/sampling/noise.h"
#include "outrider/sampling/sampling_params.h"
#include "sampling/scored.h"
#include "sampling/steps/row_figures.h"

namespace outrider {

/// Keeps a token and all better ones.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_down_to(Row& row, const Scored& last) {
    row.change([=](int64_t id, float value) {
        const Scored token{value, static_cast<int32_t>(id)};
        return is_better(last, token) ? -std::numeric_limits<float>::infinity() : value;
    });
}

template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_top_k(Row& row, int64_t k) {
    keep_down_to(row, row.last_of_count(k));
}

template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_top_p(Row& row, double p) {
    keep_down_to(row, row.last_of_share(p));
}

/// Counts the values with at least this part of the best token's weight.
struct HasWeight {
    double least;

    template <typename Number>
    OUTRIDER_HOST_DEVICE Number operator()(const Number& difference) const {
        const Number counted = portable_exp(difference) >= least ? Number{} + 1.0 : Number{};
        return difference > -std::numeric_limits<double>::infinity() ? counted : Number{};
    }
};

/// "Exclude top choices": with the given probability, removes all tokens that reach the threshold except the
/// least probable one. (github.com/oobabooga/text-generation-webui/pull/6335.)
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void exclude_top_choices(Row& row, const SamplingNumbers& numbers) {
    if (!(row.chance(NoiseStream::xtc) < numbers.xtc_probability)) {
        return;
    }
    const double least = numbers.xtc_threshold * sum_of_weights(row);
    const auto reach = static_cast<int64_t>(row.sum_all(HasWeight{least}));
    if (reach < 2) {
        return;
    }
    const Scored last = row.last_of_count(reach);
    row.change([=](int64_t id, float value) {
        const Scored token{value, static_cast<int32_t>(id)};
        return is_better(token, last) ? -std::numeric_limits<float>::infinity() : value;
    });
}

}  // namespace outrider
