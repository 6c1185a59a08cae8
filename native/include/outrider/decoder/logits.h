// Logits: the scores of every token for the requested rows, in device memory.
#pragma once

#include <cstdint>
#include <memory>

#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"

namespace outrider {

/// A light handle; copies share the memory, which the decoder's next pass overwrites.
class Logits {
  public:
    Logits(std::shared_ptr<Device> device, std::shared_ptr<DeviceBuffer<float>> values, int num_rows,
           int vocab_size)
        : device_(std::move(device)),
          values_(std::move(values)),
          num_rows_(num_rows),
          vocab_size_(vocab_size) {}

    /// Those of the first `num_rows` rows.
    Logits first(int num_rows) const { return {device_, values_, num_rows, vocab_size_}; }

    int num_rows() const { return num_rows_; }
    int vocab_size() const { return vocab_size_; }
    const std::shared_ptr<Device>& device() const { return device_; }
    /// Device memory; on a CPU device the host can read it directly.  # [num_rows, vocab_size]
    const float* data() const { return values_->data(); }
    const float* row(int index) const { return data() + static_cast<int64_t>(index) * vocab_size_; }

  private:
    std::shared_ptr<Device> device_;
    std::shared_ptr<DeviceBuffer<float>> values_;
    int num_rows_;
    int vocab_size_;
};

}  // namespace outrider
