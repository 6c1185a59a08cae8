// Softmax: maxima and float64 sums over a row, in one fixed order.
#pragma once

#include <cstdint>

#include "sampling/entropy.h"

namespace outrider {

struct RowMaximum {
    float value;
    bool valid;  // no NaN and no plus infinity in the row
};

RowMaximum find_maximum(const float* values, int count);

/// The lowest index of the value.
int32_t first_index_of(float value, const float* values, int count);

/// The number of values of a block, whose sums are added up first.
constexpr int kSumBlock = 256;

/// Sum of exp(value - best) in float64: eight interleaved sums over each kSumBlock values, then over the row.
double sum_exp(const float* values, int count, float best);

/// Sum of (value - best) * exp(value - best), in the same order.
double sum_weighted_exp(const float* values, int count, float best);

/// The sum of the masses of all values.
uint64_t sum_mass(const float* values, int count, float best);

/// The log of the sum of exp(value), where `best` is the largest value.
double log_sum_exp(const float* values, int count, float best);

}  // namespace outrider
