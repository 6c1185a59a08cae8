// require_range: throws the error for a number out of range.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace outrider {

/// Throws std::invalid_argument, naming `what` and the allowed values, unless low <= value <= high.
inline void require_range(const std::string& what, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) {
        throw std::invalid_argument(what + " is " + std::to_string(value) + "; it must be in " +
                                    std::to_string(low) + " ... " + std::to_string(high));
    }
}

}  // namespace outrider
