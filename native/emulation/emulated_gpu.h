// EmulatedGpu: the properties in which emulated GPUs differ.
#pragma once

#include "emulation/tensor_core.h"

namespace outrider::cuda {

struct EmulatedGpu {
    int memory = 0;           // MiB; 0: plenty
    int multiprocessors = 6;  // few, so that small matrices exercise every shape of a product
    TensorCore tensor_core = kHopper;
    int block_memory = 227;  // KiB of shared memory per block of threads
    bool multiplies_in_groups = true;
};

/// Adds a device with these properties, and returns its number.
int add_emulated_gpu(const EmulatedGpu& gpu);

/// Throws DeviceError if there is no such device.
const EmulatedGpu& emulated_gpu(int device);

}  // namespace outrider::cuda
