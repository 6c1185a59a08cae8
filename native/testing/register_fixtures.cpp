// Python bindings of test fixtures: logits given by the test, and poisoned blocks.
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "outrider/decoder/sharded_decoder.h"
#include "testing/device_arrays.h"
#include "testing/testing.h"

namespace py = pybind11;

namespace outrider {
namespace {

Logits make_logits(const DevicePointer& device, const FloatArray& values) {
    require_dimensions("values", values, 2);
    const int rows = rows_of(values);
    const int vocab_size = width_of(values);
    auto buffer = std::make_shared<DeviceBuffer<float>>(device, values.size());
    device->upload(buffer->data(), values.data(), values.nbytes());
    return Logits(device, buffer, rows, vocab_size);
}

void poison(ShardedDecoder& decoder, const std::vector<int>& blocks) {
    for (const int block : blocks) {
        decoder.each([&](Decoder& rank) { rank.cache().poison(block); });
    }
}

/// Fills slots of states with NaN.
void poison_states(ShardedDecoder& decoder, const std::vector<int>& slots) {
    if (!decoder.first().states()) {
        throw std::runtime_error("there are no slots for states yet");
    }
    for (const int slot : slots) {
        decoder.each([&](Decoder& rank) { rank.states()->poison(slot); });
    }
}

}  // namespace

void register_fixtures(py::module_& module) {
    module.def("make_logits", &make_logits, py::arg("device"), py::arg("values"));
    module.def("poison", &poison, py::arg("decoder"), py::arg("blocks"));
    module.def("poison_states", &poison_states, py::arg("decoder"), py::arg("slots"));
}

}  // namespace outrider
