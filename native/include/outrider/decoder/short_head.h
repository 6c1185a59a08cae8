// ShortHead: the rows of an lm_head that belong to chosen tokens, for a draft model that predicts only these.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "outrider/decoder/token_columns.h"
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
    TokenColumns& columns() { return columns_; }

    /// Copies the rows of the tokens, except rows that are in the right place already.  # [num_tokens]
    void choose(const std::vector<int32_t>& token_ids);

  private:
    void take(size_t first, size_t end);

    std::shared_ptr<Device> device_;
    const PackedWeight& whole_;
    std::unique_ptr<PackedWeight> matrix_;
    std::vector<int32_t> token_ids_;
    TokenColumns columns_;
    DeviceBuffer<float> values_;  // buffer for rows being copied
};

}  // namespace outrider
