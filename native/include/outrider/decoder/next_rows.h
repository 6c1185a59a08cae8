// NextRows: rows of a pass to come, into which draws put their tokens.
#pragma once

#include <cstdint>

namespace outrider {

/// Memory of the device.
struct NextRows {
    int32_t* token_ids = nullptr;  // [rows]
    int32_t* positions = nullptr;  // [rows]
};

}  // namespace outrider
