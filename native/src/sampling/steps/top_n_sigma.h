// Top-n-sigma: keeps the values within n standard deviations of the best.
#pragma once

#include <cmath>
#include <limits>

#include "sampling/steps/row_figures.h"

namespace outrider {

struct Difference {
    template <typename Number>
    OUTRIDER_HOST_DEVICE Number operator()(const Number& difference) const {
        return difference > -std::numeric_limits<double>::infinity() ? difference : Number{};
    }
};

struct SquareFrom {
    double mean;

    template <typename Number>
    OUTRIDER_HOST_DEVICE Number operator()(const Number& difference) const {
        const Number distance = difference - mean;
        return difference > -std::numeric_limits<double>::infinity() ? distance * distance : Number{};
    }
};

/// Tang et al., "Top-n-sigma: Not All Logits Are You Need", arXiv 2411.07641.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_top_n_sigma(Row& row, double n) {
    const double count = row.sum_all(CountedToken());
    const double mean = row.sum_all(Difference()) / count;
    const double sigma = std::sqrt(row.sum_all(SquareFrom{mean}) / count);
    const auto best = static_cast<double>(row.best());
    row.change([=](int64_t, float value) {
        return static_cast<double>(value) - best >= -n * sigma ? value
                                                               : -std::numeric_limits<float>::infinity();
    });
}

}  // namespace outrider
