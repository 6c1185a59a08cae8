// Temperature: divides the values by one number, which may depend on the entropy.
#pragma once

#include <limits>

#include "outrider/sampling/sampling_params.h"
#include "sampling/steps/row_figures.h"

namespace outrider {

/// x^exponent for an exponent of at least 0.  # x: in [0, 1]
OUTRIDER_HOST_DEVICE inline double power_of(double x, double exponent) {
    constexpr double kLeast = 1e-300;
    return portable_exp(exponent * portable_log(x > kLeast ? x : kLeast));
}

/// Ranges from `range` below the temperature, if the model is certain, to `range` above it, if all tokens are
/// equally probable; in between by a power of the entropy relative to its maximum. (llama.cpp's
/// llama_sampler_temp_ext.)
template <typename Row>
OUTRIDER_HOST_OR_DEVICE double dynamic_temperature(Row& row, const SamplingNumbers& numbers) {
    const double count = row.sum_all(CountedToken());
    const double certainty = count > 1 ? entropy_of_row(row) / portable_log(count) : 0;
    const double part = power_of(certainty < 1 ? certainty : 1, numbers.dynatemp_exponent);
    const double temperature = numbers.temperature;
    const double low = temperature > numbers.dynatemp_range ? temperature - numbers.dynatemp_range : 0;
    return low + (temperature + numbers.dynatemp_range - low) * part;
}

template <typename Row>
OUTRIDER_HOST_OR_DEVICE void apply_temperature(Row& row, const SamplingNumbers& numbers) {
    constexpr double kMost = std::numeric_limits<float>::max();
    float divisor = numbers.temperature;
    if (numbers.dynatemp_range > 0) {
        const double wanted = dynamic_temperature(row, numbers);
        divisor = static_cast<float>(wanted < kGreedyTemperature ? kGreedyTemperature
                                     : wanted < kMost            ? wanted
                                                                 : kMost);
    }
    row.change([=](int64_t, float value) { return value / divisor; });
}

}  // namespace outrider
