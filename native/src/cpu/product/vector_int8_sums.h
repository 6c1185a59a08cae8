// Int8Sums on vector units.
#pragma once

#include "cpu/elementwise/arithmetic.h"
#include "cpu/product/int8_dot.h"
#include "cpu/product/step_sums.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

template <typename MicroPanel>
struct TiledGroups;  // this instruction set has no tiles

/// The sums of int8 products with this instruction set; all sets have the same sums.
struct Int8Sums : StepSums<Int8Dot> {
    static constexpr bool kIsTiled = false;
    static constexpr int64_t kMostRows = RegisterBlocking::kPassRows;

    static int64_t multiply_registers(int64_t rounds) {
        return OUTRIDER_ISA::multiply_registers<Int8Dot>(rounds);
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
