// Python bindings of Batch: its arrays are writable views of its own memory, and its counts stay within its
// sizes.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <vector>

#include "bindings.h"
#include "outrider/decoder/batch.h"
#include "require_range.h"

namespace py = pybind11;

namespace outrider {
namespace {

py::array_t<int32_t> view(const py::object& owner, std::vector<int32_t>& values) {
    return py::array_t<int32_t>(static_cast<py::ssize_t>(values.size()), values.data(), owner);
}

auto view_of(std::vector<int32_t> Batch::* member) {
    return [member](const py::object& self) { return view(self, self.cast<Batch&>().*member); };
}

py::array_t<int32_t> block_tables(const py::object& self) {
    Batch& batch = self.cast<Batch&>();
    return py::array_t<int32_t>({batch.max_sequences, batch.max_blocks}, batch.block_tables.data(), self);
}

/// A setter of one of the batch's counts, which checks that it is at most `room`.
auto setter_of(const char* name, int Batch::* count, const int Batch::* room) {
    return [=](Batch& batch, int64_t value) {
        require_range(name, value, 0, batch.*room);
        batch.*count = static_cast<int>(value);
    };
}

}  // namespace

void register_batch(py::module_& module) {
    py::class_<Batch>(module, "Batch", py::is_final())
        .def(py::init<int, int, int>(), py::kw_only(), py::arg("max_rows"), py::arg("max_sequences"),
             py::arg("max_blocks"))
        .def("clear", &Batch::clear)
        .def("append", &Batch::append, py::arg("token_ids"), py::kw_only(), py::arg("position"),
             py::arg("blocks"), py::arg("num_logits"), py::arg("adapter") = kNoAdapter)
        .def_property_readonly("token_ids", view_of(&Batch::token_ids))
        .def_property_readonly("positions", view_of(&Batch::positions))
        .def_property_readonly("sequences", view_of(&Batch::sequences))
        .def_property_readonly("block_tables", &block_tables)
        .def_property_readonly("logit_rows", view_of(&Batch::logit_rows))
        .def_property_readonly("adapters", view_of(&Batch::adapters))
        .def_property(
            "num_rows", [](const Batch& batch) { return batch.num_rows; },
            setter_of("num_rows", &Batch::num_rows, &Batch::max_rows))
        .def_property(
            "num_sequences", [](const Batch& batch) { return batch.num_sequences; },
            setter_of("num_sequences", &Batch::num_sequences, &Batch::max_sequences))
        .def_property(
            "num_logits", [](const Batch& batch) { return batch.num_logits; },
            setter_of("num_logits", &Batch::num_logits, &Batch::max_rows));
}

}  // namespace outrider
