#include "sampling/host/softmax.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "sampling/mass.h"
#include "sampling/order_key.h"
#include "sampling/portable_math.h"

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Doubles differences(const float* values, float best) {
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
        std::fill_n(tail, kLanes, -kInfinity);
        std::copy(values + i, values + count, tail);
        sums += term(differences(tail, best));
    }
    return sums;
}

/// The term must be 0 wherever portable_exp is.
template <typename Term>
auto sum_terms(const float* values, int count, float best, const Term& term) {
    const float floor = best - 710.0f;  // below it portable_exp gives 0
    decltype(term(Doubles{})) sums{};
    for (int first = 0; first < count; first += kSumBlock) {
        const int size = std::min(kSumBlock, count - first);
        // Most blocks of a truncated row hold nothing; passing over them changes no sum.
        if (find_maximum(values + first, size).value >= floor) {
            sums += sum_block(values + first, size, best, term);
        }
    }
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

}  // namespace

RowMaximum find_maximum(const float* values, int count) {
    // On integers, since the compiler may not reorder comparisons of floats that could be NaN.
    int32_t greatest = order_key(-kInfinity);
    int32_t least = order_key(kInfinity);
    for (int i = 0; i < count; ++i) {
        const int32_t key = order_key(values[i]);
        greatest = std::max(greatest, key);
        least = std::min(least, key);
    }
    const bool valid = greatest < order_key(kInfinity) && least >= order_key(-kInfinity);
    return {value_of_key(greatest), valid};
}

int32_t first_index_of(float value, const float* values, int count) {
    return static_cast<int32_t>(std::find(values, values + count, value) - values);
}

double sum_exp(const float* values, int count, float best) {
    return sum_terms(values, count, best, [](const Doubles& d) { return portable_exp(d); });
}

double sum_weighted_exp(const float* values, int count, float best) {
    return sum_terms(values, count, best, [](const Doubles& d) { return weighted_exp(d); });
}

uint64_t sum_mass(const float* values, int count, float best) {
    return sum_terms(values, count, best, [](const Doubles& d) { return mass_of(portable_exp(d)); });
}

double log_sum_exp(const float* values, int count, float best) {
    return static_cast<double>(best) + portable_log(sum_exp(values, count, best));
}

}  // namespace outrider
