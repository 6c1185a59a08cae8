// ShortHead: the rows of an lm_head that belong to chosen tokens, for a draft model that predicts only these.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"

namespace outrider {

/// The whole lm_head is kept; the chosen rows are copied from it.
class ShortHead {
  public:
    /// `whole` must outlive it; the matrix has no valid rows until `choose`.
    ShortHead(std::shared_ptr<Device> device, const PackedWeight& whole, int num_tokens);

    int num_tokens() const { return matrix_->out_features(); }
    const PackedWeight& matrix() const { return *matrix_; }

    /// Copies the rows of the tokens, except rows that are in the right place already.  # [num_tokens]
    void choose(const std::vector<int32_t>& token_ids);

    /// Allocates logits for so many rows; returns whether they have moved.
    bool reserve(int rows);
    float* logits() const { return logits_.data(); }  // [rows, num_tokens]
    /// Writes the logits to their tokens' columns, and minus infinity to all others.
    /// # out: [rows, vocab_size]
    void spread(float* out, int rows);

  private:
    void take(size_t first, size_t end);

    std::shared_ptr<Device> device_;
    const PackedWeight& whole_;
    std::unique_ptr<PackedWeight> matrix_;
    std::vector<int32_t> token_ids_;
    DeviceBuffer<int32_t> columns_;  // the token ids, in device memory
    DeviceBuffer<float> values_;     // buffer for rows being copied
    DeviceBuffer<float> logits_;
};

}  // namespace outrider
