// require: turns a failed CUDA runtime call into a DeviceError.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "outrider/device/device_error.h"

namespace outrider::cuda {

inline void require(cudaError_t status, const char* call, int device) {
    if (status != cudaSuccess) {
        cudaGetLastError();  // clears the error; else the next check would report it again
        throw DeviceError(std::string(call) + " failed on CUDA device " + std::to_string(device) + ": " +
                          cudaGetErrorString(status));
    }
}

}  // namespace outrider::cuda
