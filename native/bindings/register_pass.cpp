// Python bindings of Pass and of its Logits.
#include <pybind11/numpy.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bindings.h"
#include "outrider/decoder/pass.h"

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

py::array_t<float> hidden_states(const Pass& pass, int first_row, int num_rows) {
    std::vector<float> values;
    {
        const py::gil_scoped_release release;
        values = pass.hidden_states(first_row, num_rows);
    }
    py::array_t<float> states({static_cast<size_t>(num_rows), values.size() / num_rows});
    std::copy(values.begin(), values.end(), states.mutable_data());
    return states;
}

}  // namespace

void register_pass(py::module_& module) {
    py::class_<Logits>(module, "Logits", py::is_final())
        .def_property_readonly("num_rows", &Logits::num_rows)
        .def_property_readonly("vocab_size", &Logits::vocab_size)
        .def("numpy", &to_numpy)
        .def("row", &row_to_numpy, py::arg("row"));
    py::class_<Pass>(module, "Pass", py::is_final())
        .def_property_readonly("logits", [](const Pass& pass) { return pass.logits(); })
        .def("hidden_states", &hidden_states, py::arg("first_row"), py::arg("num_rows"));
}

}  // namespace outrider
