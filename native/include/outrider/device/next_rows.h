// NextRows: the rows of the next pass, into which draws write their tokens.
#pragma once

#include <cstdint>

namespace outrider {

/// Pointers to device memory.
struct NextRows {
    int32_t* token_ids = nullptr;  // [rows]
    int32_t* positions = nullptr;  // [rows]
};

}  // namespace outrider
