// Softmax: maxima and float64 sums over a row, in one fixed order.
#pragma once

#include <cstdint>

#include "outrider/device/host_device.h"
#include "sampling/portable_math.h"

namespace outrider {

struct RowMaximum {
    float value;
    bool valid;  // no NaN and no plus infinity in the row
};

RowMaximum find_maximum(const float* values, int count);

/// The lowest index that holds the value.
int32_t first_index_of(float value, const float* values, int count);

/// Values whose sums are added up first.
constexpr int kSumBlock = 256;

/// Sum of exp(value - best) in float64: eight interleaved sums over each kSumBlock values, then over the row.
double sum_exp(const float* values, int count, float best);

/// Sum of (value - best) * exp(value - best), in the same order.
double sum_weighted_exp(const float* values, int count, float best);

/// Sum of the masses.
uint64_t sum_mass(const float* values, int count, float best);

/// log of the sum of exp(value), where `best` is the largest.
double log_sum_exp(const float* values, int count, float best);

/// One term of sum_weighted_exp, for one number or for eight; 0 where exp gives 0, as at minus infinity.
template <typename Number>
OUTRIDER_HOST_DEVICE inline Number weighted_exp(Number difference) {
    const Number weighted = difference * portable_exp(difference);
    return difference < -708.0 ? Number{} : weighted;
}

/// Entropy of the softmax in nats, -sum p log p = log sum e^d - (sum d e^d) / sum e^d with d = value - best.
inline double entropy_of(double sum, double weighted_sum) {
    return portable_log(sum) - weighted_sum / sum;
}

}  // namespace outrider
