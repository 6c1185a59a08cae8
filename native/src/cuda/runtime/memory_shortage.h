// memory_shortage: the error text for too little device memory.
#pragma once

#include <cstdio>
#include <string>

#include "outrider/device/device.h"

namespace outrider::cuda {

inline std::string gibibytes(size_t bytes) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
    return text;
}

inline std::string memory_shortage(size_t bytes, int device, const DeviceMemory& memory) {
    return "CUDA device " + std::to_string(device) + " has too little memory: " + gibibytes(bytes) +
           " asked for, " + gibibytes(memory.free) + " of " + gibibytes(memory.total) + " free";
}

}  // namespace outrider::cuda
