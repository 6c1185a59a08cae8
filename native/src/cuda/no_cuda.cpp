// Replaces the CUDA device in a build without CUDA.
#include "outrider/device/device.h"
#include "outrider/device/device_error.h"

namespace outrider {

std::vector<std::string> cuda_devices() {
    return {};
}

std::string cuda_problem() {
    return "this build of the native module has no CUDA";
}

std::shared_ptr<Device> make_cuda_device(int, int) {
    throw DeviceError(cuda_problem());
}

}  // namespace outrider
