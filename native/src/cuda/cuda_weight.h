// CudaWeight: a matrix in a CUDA device's memory.
#pragma once

#include "cuda/stream.h"
#include "cuda/weight_view.h"
#include "outrider/packed_weight.h"

namespace outrider::cuda {

/// In float32 or bf16; the constructor throws std::invalid_argument for another format.
class CudaWeight final : public PackedWeight {
  public:
    CudaWeight(Stream& stream, WeightFormat format, int out_features, int in_features);
    ~CudaWeight() override;

    void store(int first_row, int rows, const void* values, SourceType type) override;

    const WeightView& view() const { return view_; }

  private:
    Stream& stream_;
    WeightView view_;
};

}  // namespace outrider::cuda
