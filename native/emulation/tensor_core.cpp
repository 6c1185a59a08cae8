#include "emulation/tensor_core.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace outrider::cuda {
namespace {

constexpr int kColumns = TensorCore::kColumns;
constexpr int kLeastExponent = -126;  // of a nonzero value
constexpr int kOfZero = -1 << 16;     // exponent of a zero, which never is the largest

int32_t bits_of(float value) {
    int32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/// The exponent of a factor; subnormal values have the least one.
int32_t exponent_of(float value) {
    const int32_t biased = bits_of(value) >> 23 & 0xFF;
    return value == 0.0f ? kOfZero : std::max(biased - 127, kLeastExponent);
}

/// 2 to the power of an exponent between -1000 and 1000.
double power_of_two(int32_t exponent) {
    const int64_t bits = (int64_t{1023} + exponent) << 52;
    double power;
    std::memcpy(&power, &bits, sizeof(power));
    return power;
}

/// Rounds toward zero; infinite from 2^128 on. Zeros become positive, and NaN the hardware's NaN.
float cut_to_float32(double value) {
    if (std::isnan(value)) {
        const uint32_t bits = 0x7FFFFFFF;
        float nan;
        std::memcpy(&nan, &bits, sizeof(nan));
        return nan;
    }
    if (std::fabs(value) >= power_of_two(128)) {
        return static_cast<float>(std::copysign(HUGE_VAL, value));
    }
    const auto nearest = static_cast<float>(value);
    const bool is_beyond = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
    return is_beyond ? std::nextafterf(nearest, 0.0f) : nearest + 0.0f;
}

/// The operands of one row, with their exponents.
struct Terms {
    int count;
    int32_t exponents[TensorCore::kInputs];
    double values[TensorCore::kInputs];
};

struct Columns {
    int32_t exponents[TensorCore::kInputs][kColumns];
    double values[TensorCore::kInputs][kColumns];
};

void add_terms(const Terms& row, const Columns& columns, int first, int kept_bits, float (&sums)[kColumns]) {
    const int32_t least = -108 - kept_bits;  // as measured: -133 on Hopper, -132 on Ampere
    int32_t largest[kColumns];
    for (int column = 0; column < kColumns; ++column) {
        largest[column] = std::max(exponent_of(sums[column]), least);
    }
    for (int k = first; k < first + row.count; ++k) {
        for (int column = 0; column < kColumns; ++column) {
            largest[column] = std::max(largest[column], row.exponents[k] + columns.exponents[k][column]);
        }
    }
    double scales[kColumns];
    double totals[kColumns];
    for (int column = 0; column < kColumns; ++column) {
        scales[column] = power_of_two(kept_bits - largest[column]);
        totals[column] = std::trunc(sums[column] * scales[column]);
    }
    for (int k = first; k < first + row.count; ++k) {
        for (int column = 0; column < kColumns; ++column) {
            totals[column] += std::trunc(row.values[k] * columns.values[k][column] * scales[column]);
        }
    }
    for (int column = 0; column < kColumns; ++column) {
        sums[column] = cut_to_float32(totals[column] / scales[column]);
    }
}

}  // namespace

void TensorCore::multiply_add(const float (&left)[kRows][kInputs], const float (&right)[kInputs][kColumns],
                              float (&sums)[kRows][kColumns]) const {
    Columns columns;
    for (int k = 0; k < kInputs; ++k) {
        for (int column = 0; column < kColumns; ++column) {
            columns.exponents[k][column] = exponent_of(right[k][column]);
            columns.values[k][column] = right[k][column];
        }
    }
    for (int row = 0; row < kRows; ++row) {
        Terms own;
        own.count = terms;
        for (int k = 0; k < kInputs; ++k) {
            own.exponents[k] = exponent_of(left[row][k]);
            own.values[k] = left[row][k];
        }
        for (int first = 0; first < kInputs; first += terms) {
            add_terms(own, columns, first, kept_bits, sums[row]);
        }
    }
}

}  // namespace outrider::cuda
