// The Python module `_cuda_emulation`: the CUDA device's own code, with its kernels run on the host. Only for
// tests: it shows the results of the kernels, not their speed or behaviour on a GPU.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "emulation/emulated_gpu.h"
#include "emulation/emulated_queue.h"
#include "outrider/device/device.h"

namespace py = pybind11;

namespace outrider::cuda {
namespace {

using Matrix = py::array_t<float, py::array::c_style | py::array::forcecast>;

TensorCore tensor_core_of(const std::string& generation) {
    if (generation == "hopper" || generation == "blackwell") {
        return kHopper;
    }
    if (generation == "ampere") {
        return kAmpere;
    }
    throw std::invalid_argument("generation is " + generation + "; it must be ampere, hopper or blackwell");
}

template <size_t kSize>
void copy(const Matrix& from, float (&to)[kSize]) {
    if (from.size() != kSize) {
        throw std::invalid_argument("a matrix has the wrong shape");
    }
    std::memcpy(to, from.data(), sizeof(to));
}

/// sums + left * right, whose values must be bf16.  # [16, 16], [16, 8], [16, 8]
Matrix multiply_add(const std::string& generation, const Matrix& left, const Matrix& right,
                    const Matrix& sums) {
    float a[TensorCore::kRows][TensorCore::kInputs];
    float b[TensorCore::kInputs][TensorCore::kColumns];
    Matrix result({TensorCore::kRows, TensorCore::kColumns});
    float c[TensorCore::kRows][TensorCore::kColumns];
    copy(left, reinterpret_cast<float (&)[sizeof(a) / sizeof(float)]>(a));
    copy(right, reinterpret_cast<float (&)[sizeof(b) / sizeof(float)]>(b));
    copy(sums, reinterpret_cast<float (&)[sizeof(c) / sizeof(float)]>(c));
    tensor_core_of(generation).multiply_add(a, b, c);
    std::memcpy(result.mutable_data(), c, sizeof(c));
    return result;
}

std::shared_ptr<Device> device(int threads, int memory, int multiprocessors, const std::string& generation,
                               int block_memory) {
    return make_cuda_device(add_emulated_gpu({memory, multiprocessors, tensor_core_of(generation),
                                              block_memory, generation == "hopper"}),
                            threads);
}

}  // namespace
}  // namespace outrider::cuda

PYBIND11_MODULE(_cuda_emulation, module) {
    py::module_::import("services.engine.decoder.native");  // registers Device
    const outrider::cuda::EmulatedGpu usual;
    module.def("device", &outrider::cuda::device, py::arg("threads"), py::arg("memory") = usual.memory,
               py::arg("multiprocessors") = usual.multiprocessors, py::arg("generation") = "hopper",
               py::arg("block_memory") = usual.block_memory);
    module.def("multiply_add", &outrider::cuda::multiply_add, py::arg("generation"), py::arg("left"),
               py::arg("right"), py::arg("sums"));
    module.def("count_replays", &outrider::cuda::count_replays);
    module.def("count_uploads", &outrider::cuda::count_uploads);
    module.def("count_waits", &outrider::cuda::count_waits);
    module.def("count_arrivals", &outrider::cuda::count_arrivals);
    module.def("count_launches", &outrider::cuda::count_launches);
}
