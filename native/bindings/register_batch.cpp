// Python bindings of Batch: its arrays are writable views of its own memory, and its counts stay within its
// sizes.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <tuple>
#include <utility>
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

/// The first fields of each sequence's StatePlace; those of its rows are not the caller's.  # [max_sequences, 5]
py::array_t<int32_t> states(const py::object& self) {
    Batch& batch = self.cast<Batch&>();
    return py::array_t<int32_t>({batch.max_sequences, 5}, {sizeof(StatePlace), sizeof(int32_t)},
                                &batch.states.data()->slot, self);
}

void append(Batch& batch, const std::vector<int32_t>& run, int position, const std::vector<int32_t>& blocks,
            int num_logits, int adapter, std::optional<int> slot, int state_position,
            std::optional<int64_t> certain, const std::optional<std::pair<int, int>>& kept) {
    const int64_t end = int64_t{position} + static_cast<int64_t>(run.size());
    require_range("certain", certain.value_or(end), 0, end);
    StatePlace state{slot.value_or(-1), state_position, static_cast<int32_t>(certain.value_or(end))};
    if (kept) {
        std::tie(state.kept_slot, state.kept_position) = *kept;
    }
    batch.append(run, position, blocks, num_logits, adapter, state);
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
        .def("append", &append, py::arg("token_ids"), py::kw_only(), py::arg("position"), py::arg("blocks"),
             py::arg("num_logits"), py::arg("adapter") = kNoAdapter, py::arg("slot") = std::nullopt,
             py::arg("state_position") = 0, py::arg("certain") = std::nullopt, py::arg("kept") = std::nullopt)
        .def_property_readonly("token_ids", view_of(&Batch::token_ids))
        .def_property_readonly("positions", view_of(&Batch::positions))
        .def_property_readonly("sequences", view_of(&Batch::sequences))
        .def_property_readonly("block_tables", &block_tables)
        .def_property_readonly("states", &states)
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
