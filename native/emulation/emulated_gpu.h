// EmulatedGpu: what differs between the GPUs that are emulated.
#pragma once

#include "emulation/tensor_core.h"

namespace outrider::cuda {

struct EmulatedGpu {
    int memory = 0;           // MiB; 0: plenty
    int multiprocessors = 6;  // so few that small matrices meet every shape of a product
    TensorCore tensor_core = kHopper;
    int block_memory = 227;  // KiB of shared memory that a block of threads can have
    bool multiplies_in_groups = true;
};

/// Returns the number of a device that is such a GPU.
int add_emulated_gpu(const EmulatedGpu& gpu);

/// Throws DeviceError where there is no such device.
const EmulatedGpu& emulated_gpu(int device);

}  // namespace outrider::cuda
