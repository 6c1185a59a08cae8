// Mass: the weights of candidates as integers, whose sums do not depend on their order or on the device.
#pragma once

#include <cmath>
#include <cstdint>

#include "outrider/decoder/limits.h"
#include "outrider/device/host_device.h"
#include "sampling/portable_math.h"

namespace outrider {

/// The best candidate's mass is 2^kMassBits; another candidate's is that times the ratio of their
/// probabilities, to the nearest integer.
constexpr int kMassBits = 42;

static_assert(kMostTokens <= UINT64_MAX >> kMassBits, "the masses of a vocabulary are added up in 64 bits");

/// The mass of a candidate with weight exp(value - best), in [0, 1]. Number: double or Doubles.
template <typename Number>
OUTRIDER_HOST_DEVICE inline typename BitsOf<Number>::Type mass_of(Number weight) {
    constexpr double kRound = 0x1p10;  // adding it leaves the nearest integer mass in the low bits
    constexpr uint64_t kBitsOfRound = 0x4090000000000000;
    static_assert(kMassBits == 52 - 10, "a mass is the last place of kRound");
    return bit_cast<typename BitsOf<Number>::Type>(weight + kRound) - kBitsOfRound;
}

/// The least integer mass that is at least this part of the total.  # part: in (0, 1]; total: positive
OUTRIDER_HOST_DEVICE inline uint64_t share_of(double part, uint64_t total) {
    const auto share = static_cast<uint64_t>(std::ceil(part * static_cast<double>(total)));
    const uint64_t at_most = share < total ? share : total;  // the total may have been rounded upwards
    return at_most > 0 ? at_most : 1;
}

}  // namespace outrider
