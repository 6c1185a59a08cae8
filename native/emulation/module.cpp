// The Python module `_cuda_emulation`: the CUDA device's own code, its kernels run on the host. For tests
// only: it shows what the kernels compute, not what a GPU makes of them.
#include <pybind11/pybind11.h>

#include "emulation/emulated_queue.h"
#include "outrider/device/device.h"

PYBIND11_MODULE(_cuda_emulation, module) {
    pybind11::module_::import("services.engine.decoder.native");  // registers Device
    module.def(
        "device", [](int threads, int memory) { return outrider::make_cuda_device(memory, threads); },
        pybind11::arg("threads"), pybind11::arg("memory") = 0);  // MiB; 0: plenty
    module.def("count_replays", &outrider::cuda::count_replays);
    module.def("count_uploads", &outrider::cuda::count_uploads);
    module.def("count_waits", &outrider::cuda::count_waits);
}
