// Python bindings of the noise.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <limits>
#include <tuple>
#include <vector>

#include "outrider/sampling/noise.h"
#include "outrider/sampling/philox.h"
#include "require_range.h"
#include "testing/testing.h"

namespace py = pybind11;

namespace outrider {
namespace {

using WordArray = py::array_t<uint32_t, py::array::c_style>;

std::tuple<uint32_t, uint32_t, uint32_t, uint32_t> philox(const PhiloxCounter& counter,
                                                          const PhiloxKey& key) {
    const PhiloxCounter words = philox4x32(counter, key);
    return {words[0], words[1], words[2], words[3]};
}

py::array_t<float> noise_of_words(const WordArray& words) {
    py::array_t<float> noise(std::vector<py::ssize_t>(words.shape(), words.shape() + words.ndim()));
    const uint32_t* from = words.data();
    float* to = noise.mutable_data();
    const int64_t count = words.size();
    const py::gil_scoped_release release;
    gumbel(from, count, to);
    return noise;
}

py::array_t<float> noise_at(uint64_t seed, uint64_t position, uint32_t stream, int64_t count) {
    require_range("count", count, 0, int64_t{std::numeric_limits<int32_t>::max()});
    py::array_t<float> noise(count);
    float* to = noise.mutable_data();
    const py::gil_scoped_release release;
    gumbel_noise({seed, position, static_cast<NoiseStream>(stream)}, count, to);
    return noise;
}

}  // namespace

void register_noise(py::module_& module) {
    module.def("philox4x32", &philox, py::arg("counter"), py::arg("key"));
    module.def("gumbel", &noise_of_words, py::arg("words"));
    module.def("gumbel_noise", &noise_at, py::arg("seed"), py::arg("position"), py::arg("stream"),
               py::arg("count"));
}

}  // namespace outrider
