#include "sampling/host/row/softmax.h"

#include <algorithm>
#include <limits>

#include "sampling/host/row/row_sum.h"
#include "sampling/mass.h"
#include "sampling/order_key.h"
#include "sampling/portable_math.h"

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

RowMaximum find_maximum(const float* values, int count) {
    // Compares integers, since the compiler may not reorder comparisons of floats that could be NaN.
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
