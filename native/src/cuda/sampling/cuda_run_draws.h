// CudaRunDraws: a run's draws, computed without leaving the device.
#pragma once

#include <vector>

#include "cuda/runtime/memory.h"
#include "cuda/sampling/kernels/advance.h"
#include "cuda/sampling/token_draws.h"
#include "sampling/run_draws.h"

namespace outrider::cuda {

/// Device memory that runs reuse one after another.
struct RunMemory {
    explicit RunMemory(Stream& stream) : rows(stream), tokens(stream) {}

    /// Allocates memory for runs of any usual size.
    void reserve();

    Memory<RunRow> rows;
    Memory<int32_t> tokens;
};

class CudaRunDraws final : public RunDraws {
  public:
    CudaRunDraws(Stream& stream, TokenDraws& draws, RunMemory& memory, const std::vector<RunningRow>& rows,
                 const NextRows& next);

    bool draw(int num_rows) override;
    std::vector<std::vector<int32_t>> tokens() override;

  private:
    Stream& stream_;
    TokenDraws& draws_;
    RunMemory& memory_;
    DrawBatch batch_{};
    Run run_{};
    std::vector<int> counts_;
    int num_draws_ = 0;  // so far
};

}  // namespace outrider::cuda
