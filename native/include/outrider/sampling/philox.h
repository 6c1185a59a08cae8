// Philox4x32-10, the counter-based generator of every random choice.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11, section 4.3.
#pragma once

#include <array>
#include <cstdint>

#include "outrider/device/host_device.h"

namespace outrider {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Four random words: a pure function of the counter and the key.
OUTRIDER_HOST_DEVICE inline PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t even = uint64_t{0xD2511F53} * counter[0];
        const uint64_t odd = uint64_t{0xCD9E8D57} * counter[2];
        counter = {static_cast<uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(odd),
                   static_cast<uint32_t>(even >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(even)};
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    return counter;
}

}  // namespace outrider
