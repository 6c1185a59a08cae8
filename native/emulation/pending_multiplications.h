// PendingMultiplications: the multiplications that a thread of an emulated block has started with its group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace outrider::cuda {

/// A lane's part of sums += a * b, 16 rows by some columns over 16 k. Its registers are accessed when the
/// multiplication is made; until then they must not change.
struct PendingMultiplication {
    float* sums;
    const uint32_t* a;
    const char* b;  // as in RightOperand
    int along_k;
    int along_columns;
    int columns;
};

/// Sets of multiplications, the oldest first.
struct PendingMultiplications {
    std::vector<PendingMultiplication> open{};
    std::deque<std::vector<PendingMultiplication>> sets{};

    void close() {
        sets.push_back(std::move(open));
        open.clear();
    }
    void forget() {
        open.clear();
        sets.clear();
    }
};

}  // namespace outrider::cuda
