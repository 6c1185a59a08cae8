// ActivationBuffer: the input rows of products, in device memory.
#pragma once

#include <cstdint>
#include <memory>

#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"

namespace outrider {

/// Rows of activations; the values between the width and the stride are zero.
class ActivationBuffer {
  public:
    ActivationBuffer(Format format, int width)
        : format_(format),
          stride_((int64_t{width} + kActivationAlignment - 1) / kActivationAlignment * kActivationAlignment) {
    }

    bool reserve(const std::shared_ptr<Device>& device, int rows) {
        return bytes_.reserve(device, rows * stride_ * size_of(format_));
    }
    Activations view() const { return {bytes_.data(), format_, stride_}; }

  private:
    Format format_;
    int64_t stride_;
    DeviceBuffer<char> bytes_;
};

/// The same rows from a column on.
inline Activations from_column(const Activations& rows, int column) {
    return {static_cast<char*>(rows.data) + column * size_of(rows.format), rows.format, rows.stride};
}

}  // namespace outrider
