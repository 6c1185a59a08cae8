#include "emulation/emulated_gpu.h"

#include <deque>
#include <mutex>
#include <string>

#include "outrider/device/device_error.h"

namespace outrider::cuda {
namespace {

/// All GPUs added so far; their addresses are stable.
struct Gpus {
    std::mutex mutex;
    std::deque<EmulatedGpu> all;

    static Gpus& instance() {
        static Gpus gpus;
        return gpus;
    }
};

}  // namespace

int add_emulated_gpu(const EmulatedGpu& gpu) {
    Gpus& gpus = Gpus::instance();
    const std::lock_guard<std::mutex> lock(gpus.mutex);
    gpus.all.push_back(gpu);
    return static_cast<int>(gpus.all.size()) - 1;
}

const EmulatedGpu& emulated_gpu(int device) {
    Gpus& gpus = Gpus::instance();
    const std::lock_guard<std::mutex> lock(gpus.mutex);
    if (device < 0 || device >= static_cast<int>(gpus.all.size())) {
        throw DeviceError("CUDA device " + std::to_string(device) + " is not emulated");
    }
    return gpus.all[device];
}

}  // namespace outrider::cuda
