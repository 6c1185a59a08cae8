// Stands in for the CUDA device in a build without it.
#include <stdexcept>

#include "outrider/device.h"

namespace outrider {

std::shared_ptr<Device> make_cuda_device(int) {
    throw std::runtime_error(
        "device \"cuda\" is not available: this build of the native module has no CUDA; use \"cpu\"");
}

}  // namespace outrider
