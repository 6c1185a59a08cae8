// Python bindings of Logits.
#include <pybind11/numpy.h>

#include <string>

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

}  // namespace

void register_logits(py::module_& module) {
    py::class_<Logits>(module, "Logits", py::is_final())
        .def_property_readonly("num_rows", &Logits::num_rows)
        .def_property_readonly("vocab_size", &Logits::vocab_size)
        .def("numpy", &to_numpy)
        .def("row", &row_to_numpy, py::arg("row"));
}

}  // namespace outrider
