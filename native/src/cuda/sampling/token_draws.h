// TokenDraws: draws tokens from rows of logits in CUDA device memory.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/runtime/memory.h"
#include "cuda/runtime/recordings.h"
#include "cuda/runtime/stream.h"
#include "cuda/sampling/kernels/draw_batch.h"
#include "cuda/sampling/lent_noise.h"

namespace outrider::cuda {

/// The scratch covers only a few rows at once: a row of 150000 tokens takes 7 MB besides its logits.
class TokenDraws {
  public:
    static constexpr int64_t kMaxRows = 16;
    static constexpr int64_t kReservedRows = 256;  // for small arrays

    explicit TokenDraws(Stream& stream);

    /// Allocates memory for any draw from kMaxRows rows of so many logits.
    void reserve(int64_t vocab_size);

    /// Uploads all rows and edits; the batch is valid until the next call.
    DrawBatch place(const std::vector<SamplingRow>& rows, std::vector<Edit> edits);

    /// Enqueues the draw of a token from each row of the batch, at most kMaxRows of them. A batch with the
    /// same sizes and addresses as an earlier one is replayed as one launch.
    void draw(const DrawBatch& batch);

    /// Waits for the results of the first `num_rows` rows.
    std::vector<DrawnRow> download(int64_t num_rows) const { return drawn_.download(num_rows); }

  private:
    void enqueue(const DrawBatch& batch) const;

    const Stream& stream_;
    Recordings<DrawBatch> recordings_;
    Memory<DrawRow> rows_;
    Memory<Edit> edits_;
    Memory<uint32_t> masks_;
    LentNoise lent_noise_;
    Memory<DrawnRow> drawn_;
    Memory<BlockPart> parts_;
    Memory<float> processed_;
    Memory<float> distribution_;
    Memory<float> guided_;
    Memory<float> judged_;
    Memory<uint64_t> masses_;
    Memory<Scored> ranked_;
};

}  // namespace outrider::cuda
