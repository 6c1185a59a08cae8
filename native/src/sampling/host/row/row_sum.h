// Sums of terms over a row, in one fixed order: eight interleaved sums over each kSumBlock values, then over
// the row.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>

#include "sampling/host/row/softmax.h"
#include "sampling/portable_math.h"

namespace outrider {

inline Doubles differences(const float* values, float best) {
    Floats some;
    std::memcpy(&some, values, sizeof some);
    return __builtin_convertvector(some, Doubles) - static_cast<double>(best);
}

template <typename Term>
auto sum_block(const float* values, int count, float best, const Term& term) {
    decltype(term(Doubles{})) sums{};
    int i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        sums += term(differences(values + i, best));
    }
    if (i < count) {
        float tail[kLanes];
        std::fill_n(tail, kLanes, -std::numeric_limits<float>::infinity());
        std::copy(values + i, values + count, tail);
        sums += term(differences(tail, best));
    }
    return sums;
}

/// The sum of term(value - best), in eight lanes. The term must be 0 below `floor` and at minus infinity.
template <typename Term>
auto sum_terms(const float* values, int count, float best, float floor, const Term& term) {
    decltype(term(Doubles{})) sums{};
    for (int first = 0; first < count; first += kSumBlock) {
        const int size = std::min(kSumBlock, count - first);
        // Most blocks of a truncated row are all minus infinity; skipping them changes no sum.
        if (find_maximum(values + first, size).value >= floor) {
            sums += sum_block(values + first, size, best, term);
        }
    }
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/// The same for a term that is 0 wherever portable_exp is 0.
template <typename Term>
auto sum_terms(const float* values, int count, float best, const Term& term) {
    return sum_terms(values, count, best, best - 710.0f, term);
}

}  // namespace outrider
