// ShortHead: the rows of an lm_head that belong to some tokens, for a draft that predicts only these.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"

namespace outrider {

/// The whole lm_head stays where it is: rows are taken from it, as it holds them.
class ShortHead {
  public:
    /// `whole` must outlive it; until `choose` its tokens are not yet there.
    ShortHead(std::shared_ptr<Device> device, const PackedWeight& whole, int num_tokens);

    int num_tokens() const { return matrix_->out_features(); }
    const PackedWeight& matrix() const { return *matrix_; }

    /// Takes the rows of tokens, but for those that are in the same places already.  # [num_tokens]
    void choose(const std::vector<int32_t>& token_ids);

    /// Makes room for so many rows of logits; returns whether they have moved.
    bool reserve(int rows);
    float* logits() const { return logits_.data(); }  // [rows, num_tokens]
    /// Puts them where their tokens are; all others are minus infinity.  # out: [rows, vocab_size]
    void spread(float* out, int rows);

  private:
    void take(size_t first, size_t end);

    std::shared_ptr<Device> device_;
    const PackedWeight& whole_;
    std::unique_ptr<PackedWeight> matrix_;
    std::vector<int32_t> token_ids_;
    DeviceBuffer<int32_t> columns_;  // the same, on the device
    DeviceBuffer<float> values_;     // of rows on their way
    DeviceBuffer<float> logits_;
};

}  // namespace outrider
