// Numpy arrays to and from a device's memory, for the bindings of single operations.
#pragma once

#include <pybind11/numpy.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "outrider/decoder/workspace.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "require_range.h"
#include "source_values.h"

namespace outrider {

using FloatArray = pybind11::array_t<float, pybind11::array::c_style | pybind11::array::forcecast>;
using IntArray = pybind11::array_t<int32_t, pybind11::array::c_style | pybind11::array::forcecast>;
using DevicePointer = std::shared_ptr<Device>;
using OptionalArray = std::optional<FloatArray>;

inline const Names<Format> kFormats{{"bf16", Format::bf16}, {"f32", Format::f32}};

inline void require_dimensions(const char* name, const pybind11::array& array, int dimensions) {
    if (array.ndim() != dimensions) {
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.ndim()) +
                                    " dimensions; it must have " + std::to_string(dimensions));
    }
}

/// An array's length along an axis; throws std::invalid_argument if it exceeds int.
inline int length_of(const char* what, const pybind11::array& array, int axis) {
    require_range(what, array.shape(axis), 0, std::numeric_limits<int>::max());
    return static_cast<int>(array.shape(axis));
}
inline int rows_of(const pybind11::array& values) {
    return length_of("rows", values, 0);
}
inline int width_of(const pybind11::array& values) {
    return length_of("columns", values, 1);
}

template <typename T>
DeviceBuffer<T> upload(const DevicePointer& device,
                       const pybind11::array_t<T, FloatArray::c_style | FloatArray::forcecast>& values) {
    DeviceBuffer<T> buffer(device, values.size());
    device->upload(buffer.data(), values.data(), values.nbytes());
    return buffer;
}

inline DeviceBuffer<float> upload(const DevicePointer& device, const OptionalArray& values) {
    return values ? upload<float>(device, *values) : DeviceBuffer<float>();
}

inline FloatArray download(const DevicePointer& device, const DeviceBuffer<float>& from,
                           std::vector<pybind11::ssize_t> shape) {
    FloatArray values(std::move(shape));
    device->download(values.mutable_data(), from.data(), values.nbytes());
    return values;
}

inline FloatArray download(const DevicePointer& device, const Activations& from, int rows, int width) {
    FloatArray values({rows, width});
    std::vector<char> stored(rows * from.stride * size_of(from.format));
    device->download(stored.data(), from.data, stored.size());
    const SourceType type = from.format == Format::f32 ? SourceType::f32 : SourceType::bf16;
    for (int row = 0; row < rows; ++row) {
        const std::vector<float> converted = to_float32(stored.data(), type, row * from.stride, width);
        std::copy(converted.begin(), converted.end(), values.mutable_data(row));
    }
    return values;
}

inline void require_shape(const char* name, const pybind11::array& values,
                          const std::vector<int64_t>& shape) {
    if (shape_of(values) != shape) {
        throw std::invalid_argument(std::string(name) + " has the wrong shape");
    }
}

inline void require_shape(const char* name, const OptionalArray& values, const std::vector<int64_t>& shape) {
    if (values) {
        require_shape(name, *values, shape);
    }
}

inline void require_range(const char* name, const IntArray& values, int64_t end) {
    const int32_t* first = values.data();
    if (std::any_of(first, first + values.size(),
                    [end](int32_t value) { return value < 0 || value >= end; })) {
        throw std::invalid_argument(std::string(name) + " must be in 0 ... " + std::to_string(end - 1));
    }
}

}  // namespace outrider
