// DeviceBuffer: owns memory of one device and releases it on destruction.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "outrider/device/device.h"

namespace outrider {

template <typename T>
class DeviceBuffer {
  public:
    DeviceBuffer() = default;
    DeviceBuffer(std::shared_ptr<Device> device, size_t size)
        : device_(std::move(device)),
          data_(static_cast<T*>(device_->allocate(size * sizeof(T)))),
          size_(size) {}
    ~DeviceBuffer() {
        if (data_) {
            device_->release(data_);
        }
    }
    DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
    DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
        swap(other);
        return *this;
    }

    T* data() const { return data_; }
    size_t size() const { return size_; }

    /// Makes room for `size` elements; the contents are lost when it grows. Returns whether it has grown.
    bool reserve(const std::shared_ptr<Device>& device, size_t size) {
        if (size <= size_) {
            return false;
        }
        *this = DeviceBuffer();  // release the old memory first: there need not be room for both
        *this = DeviceBuffer(device, size);
        return true;
    }

  private:
    void swap(DeviceBuffer& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }

    std::shared_ptr<Device> device_;
    T* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace outrider
