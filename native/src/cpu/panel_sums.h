// The end of a matrix product: sums over K, for neighbouring output features, become its output.
#pragma once

#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// out = sums + bias, for `count` rows from `first` and the columns from first_column that there are.
/// # sums: [count, kColumns]
template <int kColumns>
inline void write_sums(const WeightView& weight, const ProductRows& rows, int64_t first_column, int64_t first,
                       int64_t count, const float* sums) {
    const int64_t end = smaller(first_column + kColumns, weight.out_features);
    for (int64_t row = 0; row < count; ++row) {
        float* out = rows.out + (first + row) * weight.out_features;
        for (int64_t column = first_column; column < end; column += kLanes) {
            Vec sum = load(sums + row * kColumns + column - first_column);
            if (rows.bias) {
                sum += load_first(rows.bias + column, end - column);
            }
            store_first(out + column, sum, end - column);
        }
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
