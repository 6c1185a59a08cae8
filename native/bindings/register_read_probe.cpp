// Python bindings of ReadProbe: device memory whose read bandwidth is measured.
#include <memory>
#include <utility>

#include "bindings.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "require_range.h"

namespace py = pybind11;

namespace outrider {
namespace {

class ReadProbe {
  public:
    ReadProbe(std::shared_ptr<Device> device, int64_t bytes)
        : device_(std::move(device)), memory_(device_, rounded_up(bytes)) {
        device_->commit(memory_.data(), memory_.size());  // else all pages might map to one page of zeros
    }

    size_t bytes() const { return memory_.size(); }
    void read(bool in_stripes) { device_->read({memory_.data(), memory_.size(), in_stripes}); }

  private:
    static size_t rounded_up(int64_t bytes) {
        constexpr int64_t kMost = int64_t{1} << 60;
        require_range("bytes", bytes, 0, kMost);
        return (bytes + kReadUnit - 1) / kReadUnit * kReadUnit;
    }

    std::shared_ptr<Device> device_;
    DeviceBuffer<char> memory_;
};

}  // namespace

void register_read_probe(py::module_& module) {
    py::class_<ReadProbe>(module, "ReadProbe", py::is_final())
        .def(py::init<std::shared_ptr<Device>, int64_t>(), py::arg("device"), py::arg("bytes"))
        .def_property_readonly("bytes", &ReadProbe::bytes)
        .def("read", &ReadProbe::read, py::arg("in_stripes"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace outrider
