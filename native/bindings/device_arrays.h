// Numpy arrays to and from a device's memory, for the bindings of single operations.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "outrider/decoder/workspace.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "source_values.h"

namespace outrider {

using DevicePointer = std::shared_ptr<Device>;
using OptionalArray = std::optional<FloatArray>;

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
