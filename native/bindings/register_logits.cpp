// Python bindings of Logits.
#include <memory>
#include <string>

#include "arrays.h"
#include "bindings.h"
#include "outrider/decoder/logits.h"

namespace py = pybind11;

namespace outrider {
namespace {

py::array_t<float> to_numpy(const Logits& logits) {
    py::array_t<float> values({logits.num_rows(), logits.vocab_size()});
    logits.device()->download(values.mutable_data(), logits.data(), values.nbytes());
    return values;
}

py::array_t<float> row_to_numpy(const Logits& logits, int row) {
    if (row < 0 || row >= logits.num_rows()) {
        throw py::index_error("row: must be in [0, " + std::to_string(logits.num_rows()) + ")");
    }
    py::array_t<float> values(logits.vocab_size());
    logits.device()->download(values.mutable_data(), logits.row(row), values.nbytes());
    return values;
}

Logits from_numpy(const std::shared_ptr<Device>& device, const FloatArray& values) {
    require_dimensions("values", values, 2);
    const int rows = rows_of(values);
    const int vocab_size = width_of(values);
    auto buffer = std::make_shared<DeviceBuffer<float>>(device, values.size());
    device->upload(buffer->data(), values.data(), values.nbytes());
    return Logits(device, buffer, rows, vocab_size);
}

}  // namespace

void register_logits(py::module_& module) {
    py::class_<Logits>(module, "Logits", py::is_final())
        .def_property_readonly("num_rows", &Logits::num_rows)
        .def_property_readonly("vocab_size", &Logits::vocab_size)
        .def("numpy", &to_numpy)
        .def("row", &row_to_numpy, py::arg("row"))
        .def_static("from_numpy", &from_numpy, py::arg("device"), py::arg("values"));
}

}  // namespace outrider
