// TokenColumns: the logits of some tokens, and their columns among those of the whole vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"

namespace outrider {

class TokenColumns {
  public:
    TokenColumns(std::shared_ptr<Device> device, int num_tokens, int vocab_size);

    /// Sets the token of each logit.  # [num_tokens]
    void set(const std::vector<int32_t>& token_ids);
    bool are_set() const { return are_set_; }
    const int32_t* token_ids() const { return token_ids_.data(); }  // in device memory

    /// Allocates logits for so many rows; returns whether they have moved.
    bool reserve(int rows);
    float* logits() const { return logits_.data(); }  // [rows, num_tokens]
    /// Writes the logits from a row on to their tokens' columns, and minus infinity to all others.
    /// # out: [rows, vocab_size]
    void spread(float* out, int rows, int first_row = 0);

  private:
    std::shared_ptr<Device> device_;
    int vocab_size_;
    bool are_set_ = false;
    DeviceBuffer<int32_t> token_ids_;
    DeviceBuffer<float> logits_;
};

}  // namespace outrider
