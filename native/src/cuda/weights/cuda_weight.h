// CudaWeight: a matrix in CUDA device memory.
#pragma once

#include "cuda/runtime/memory.h"
#include "cuda/runtime/stream.h"
#include "cuda/weights/weight_view.h"
#include "outrider/device/packed_weight.h"

namespace outrider::cuda {

class CudaWeight final : public PackedWeight {
  public:
    CudaWeight(Stream& stream, WeightFormat format, int out_features, int in_features);

    void store(int first_row, int rows, const void* values, SourceType type) override;

    const WeightView& view() const { return view_; }

  private:
    Memory<char> tiles_;
    Memory<float> scales_;
    WeightView view_;
    Stream& stream_;
};

}  // namespace outrider::cuda
