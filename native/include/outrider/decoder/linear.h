// Linear: products of a pass's rows with the decoder's matrices, changed by the rows' adapters.
#pragma once

#include <memory>
#include <utility>

#include "outrider/decoder/adapters.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/device/ranks.h"
#include "outrider/weights/fused_weight.h"

namespace outrider {

class Linear {
  public:
    /// `adapters` and `ranks` must outlive it.
    Linear(std::shared_ptr<Device> device, Adapters& adapters, Ranks& ranks)
        : device_(std::move(device)), adapters_(adapters), ranks_(ranks) {}

    Ranks& ranks() { return ranks_; }

    /// Allocates memory for products of such sizes; returns whether it has moved.
    bool reserve(int rows, int out_features, int in_features) {
        return scratch_.reserve(device_, device_->product_scratch(rows, out_features, in_features));
    }

    /// out = input * weight^T + bias, and the updates of the rows' adapters; without the parts before a column. The
    /// rows of `out` may be wider than the outputs.
    void multiply(const Activations& input, int rows, const FusedWeight& weight, const float* bias,
                  float* out, int first_column = 0, int out_stride = 0);

    /// The same with a matrix that is divided among the ranks: computes the rank's columns of `width` in all.
    void multiply_own(const Activations& input, int rows, const FusedWeight& weight, const float* bias,
                      float* out, int width);
    /// Likewise; then all ranks have all columns.
    void multiply_all(const Activations& input, int rows, const FusedWeight& weight, const float* bias,
                      float* out, int width);

    /// Computes such a product in `out`, and then its activation; both in one operation if no adapter changes
    /// the product.
    void multiply_and_activate(const Activations& input, const FusedWeight& weight, const float* bias,
                               float* out, Activate activation);

  private:
    /// Describes the product with one part of a fused weight; its columns are a range of the output `out`
    /// that all parts share.
    Product product_of(const Activations& input, int rows, const FusedWeight::Part& part, const float* bias,
                       float* out, int out_stride);

    std::shared_ptr<Device> device_;
    Adapters& adapters_;
    Ranks& ranks_;
    DeviceBuffer<float> scratch_;
};

}  // namespace outrider
