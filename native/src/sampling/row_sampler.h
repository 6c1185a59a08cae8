// RowSampler: draws from rows of logits in device memory.
#pragma once

#include <memory>
#include <vector>

#include "outrider/device/next_rows.h"
#include "outrider/device/thread_pool.h"
#include "sampling/run_draws.h"
#include "sampling/sampling_row.h"

namespace outrider {

/// The row samplers of all devices give the same bits for the same rows.
class RowSampler {
  public:
    virtual ~RowSampler() = default;

    /// Allocates memory for rows of so many logits, so that no later sample allocates device memory.
    virtual void reserve(int64_t vocab_size) = 0;

    /// Draws one sample for each row, whose logits are in device memory. Called by one thread at a time.
    virtual std::vector<RowSample> sample(const std::vector<SamplingRow>& rows) = 0;

    /// Prepares draws whose tokens go into the rows of the next pass. The sampler must outlive them, and
    /// takes no other call meanwhile.
    virtual std::unique_ptr<RunDraws> begin_run(const std::vector<RunningRow>& rows,
                                                const NextRows& next) = 0;
};

/// Creates a sampler of logits in host memory; the pool must outlive it.
std::unique_ptr<RowSampler> make_host_row_sampler(ThreadPool& pool);

}  // namespace outrider
