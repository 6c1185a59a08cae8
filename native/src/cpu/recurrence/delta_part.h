// DeltaPart: the rows of one sequence and one value head, which are a task of the gated delta rule.
#pragma once

#include <cstdint>

namespace outrider::cpu {

/// The largest head of a state, in rows and in columns.
constexpr int kMostStateDim = 256;
/// The longest convolution before a state.
constexpr int kMostStateTaps = 32;

struct DeltaPart {
    int64_t first_row;
    int64_t rows;
    int head;
};

}  // namespace outrider::cpu
