// require: a CUDA runtime call's failure as a DeviceError.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "outrider/device/device_error.h"

namespace outrider::cuda {

inline void require(cudaError_t status, const char* call, int device) {
    if (status != cudaSuccess) {
        cudaGetLastError();  // or it would be reported once more by the next call that looks
        throw DeviceError(std::string(call) + " failed on CUDA device " + std::to_string(device) + ": " +
                          cudaGetErrorString(status));
    }
}

}  // namespace outrider::cuda
