// CudaRowSampler: draws from rows of logits in CUDA device memory.
#pragma once

#include <memory>
#include <vector>

#include "cuda/runtime/memory.h"
#include "cuda/runtime/stream.h"
#include "cuda/sampling/cuda_run_draws.h"
#include "cuda/sampling/kernels/draw_batch.h"
#include "cuda/sampling/token_draws.h"
#include "sampling/row_sampler.h"

namespace outrider::cuda {

class CudaRowSampler final : public RowSampler {
  public:
    explicit CudaRowSampler(Stream& stream);

    void reserve(int64_t vocab_size) override;
    std::vector<RowSample> sample(const std::vector<SamplingRow>& rows) override;
    std::unique_ptr<RunDraws> begin_run(const std::vector<RunningRow>& rows, const NextRows& next) override;

  private:
    struct Needs;

    std::vector<RowSample> sample_some(const std::vector<SamplingRow>& rows);
    void sum(const DrawBatch& batch, const Needs& needs);

    Stream& stream_;
    TokenDraws draws_;
    RunMemory run_memory_;
    Memory<RankedToken> candidates_;
};

}  // namespace outrider::cuda
