// TileConfig: the shapes of AMX's eight tile registers.
#pragma once

#include <cstdint>

#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

constexpr int kTileRows = 16;
constexpr int64_t kTileRowBytes = 64;

/// The operand of LDTILECFG.
struct alignas(64) TileConfig {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64, "as the instruction reads it");

}  // namespace outrider::cpu::OUTRIDER_ISA
