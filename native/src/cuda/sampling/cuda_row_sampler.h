// CudaRowSampler: draws from rows of logits in a CUDA device's memory.
#pragma once

#include <vector>

#include "cuda/memory.h"
#include "cuda/sampling/draw_batch.h"
#include "cuda/sampling/processing.h"
#include "cuda/stream.h"
#include "sampling/row_sampler.h"

namespace outrider::cuda {

class CudaRowSampler final : public RowSampler {
  public:
    explicit CudaRowSampler(Stream& stream);

    void reserve(int64_t vocab_size) override;
    std::vector<RowSample> sample(const std::vector<SamplingRow>& rows) override;

  private:
    struct Needs;

    void sample_some(const SamplingRow* rows, int64_t num_rows, RowSample* samples);
    void sum(const DrawBatch& batch, const Needs& needs);
    DrawBatch make_batch(const std::vector<DrawRow>& rows, int64_t vocab_size, const Needs& needs);

    Stream& stream_;
    Memory<DrawRow> rows_;
    Memory<Edit> edits_;
    Memory<uint32_t> masks_;
    Memory<DrawnRow> drawn_;
    Memory<BlockPart> parts_;
    Memory<float> processed_;
    Memory<float> distribution_;
    Memory<uint64_t> masses_;
    Memory<Scored> ranked_;
    Memory<RankedToken> candidates_;
};

}  // namespace outrider::cuda
