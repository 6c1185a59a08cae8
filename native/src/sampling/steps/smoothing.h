// Smoothing ("quadratic sampling"): a polynomial in the distance from the best value, with a square and a
// cubic term.
#pragma once

#include "outrider/sampling/sampling_params.h"

namespace outrider {

/// best - factor * (k d^2 + s d^3) with d = best - value, k = (3 - curve) / 2 and s = (curve - 1) / 2: values
/// near the best move nearer to it, values far away move further. (text-generation-webui's modify_logits for
/// smoothing_factor and smoothing_curve.)
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void smooth(Row& row, const SamplingNumbers& numbers) {
    const auto best = static_cast<double>(row.best());
    const double square = numbers.smoothing_factor * (3 - numbers.smoothing_curve) / 2;
    const double cube = numbers.smoothing_factor * (numbers.smoothing_curve - 1) / 2;
    row.change([=](int64_t, float value) {
        const double d = best - static_cast<double>(value);
        const bool has_value = value > -std::numeric_limits<float>::infinity();
        return has_value ? static_cast<float>(best - (square + cube * d) * d * d) : value;
    });
}

}  // namespace outrider
