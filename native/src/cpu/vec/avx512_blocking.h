// RegisterBlocking for 32 registers of sixteen lanes.
#pragma once

#include "cpu/vec/vec_types.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct RegisterBlocking {
    static constexpr int kVectors = 4;
    static constexpr int kRows = 6;      // 24 of 32 registers hold sums
    static constexpr int kInt4Rows = 3;  // 12 of 32 registers hold totals and 12 a group's sums
    static constexpr int kInt4Words = 4;
    static constexpr int kUnpackedRows = 7;  // with fewer rows, unpacking takes more time than it saves
    static constexpr int kQueries = 8;       // with two vectors each, 16 of 32 registers hold sums
    static constexpr int64_t kSteps = 64;
    static constexpr int64_t kPassRows = 64;
};

}  // namespace outrider::cpu::OUTRIDER_ISA
