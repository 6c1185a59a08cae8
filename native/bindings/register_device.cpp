// Python bindings of Device.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "arrays.h"
#include "bindings.h"
#include "outrider/device/device.h"
#include "outrider/device/device_error.h"
#include "require_range.h"

namespace py = pybind11;

namespace outrider {

void register_device(py::module_& module) {
    py::register_exception<DeviceError>(module, "DeviceError", PyExc_RuntimeError);
    module.def("isas", &cpu_isas);
    module.def("cuda_devices", &cuda_devices);
    module.def("cuda_problem", &cuda_problem);
    py::class_<Device, std::shared_ptr<Device>>(module, "Device", py::is_final())
        .def_static("cpu", &make_cpu_device, py::arg("isa"), py::arg("threads"), py::kw_only(),
                    py::arg("many_rows") = py::none())
        .def_static("cuda", &make_cuda_device, py::arg("index"), py::arg("threads"))
        .def("synchronize", &Device::synchronize, py::call_guard<py::gil_scoped_release>())
        .def(
            "multiply_registers",
            [](Device& device, const std::string& weights, int64_t rounds) {
                constexpr int64_t kMost = int64_t{1} << 20;
                require_range("rounds", rounds, 0, kMost);
                const WeightFormat format = parse("weights", weights, kWeightFormats);
                const py::gil_scoped_release release;
                return device.multiply_registers(format, rounds);
            },
            py::arg("weights"), py::arg("rounds"))
        .def_property_readonly("memory",
                               [](const Device& device) -> std::optional<std::pair<size_t, size_t>> {
                                   const std::optional<DeviceMemory> memory = device.memory();
                                   if (!memory) {
                                       return std::nullopt;
                                   }
                                   return std::pair(memory->free, memory->total);
                               })
        .def_property_readonly("name", &Device::name)
        .def_property_readonly("threads", [](Device& device) { return device.pool().size(); });
}

}  // namespace outrider
