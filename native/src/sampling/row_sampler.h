// RowSampler: draws from rows of logits where they lie.
#pragma once

#include <memory>
#include <vector>

#include "outrider/decoder/next_rows.h"
#include "outrider/device/thread_pool.h"
#include "sampling/run_draws.h"
#include "sampling/sampling_row.h"

namespace outrider {

/// Every device's row sampler gives the same bits for the same rows.
class RowSampler {
  public:
    virtual ~RowSampler() = default;

    /// Makes room for rows of so many logits, so that no later sample allocates memory of the device.
    virtual void reserve(int64_t vocab_size) = 0;

    /// One sample for each row, whose logits are memory of the device. Called by one thread at a time.
    virtual std::vector<RowSample> sample(const std::vector<SamplingRow>& rows) = 0;

    /// Makes ready for draws that go into the rows of the next pass; the sampler must outlive them, and takes
    /// no other call meanwhile.
    virtual std::unique_ptr<RunDraws> begin_run(const std::vector<RunningRow>& rows,
                                                const NextRows& next) = 0;
};

/// Sampler of logits that the host can read; the pool must outlive it.
std::unique_ptr<RowSampler> make_host_row_sampler(ThreadPool& pool);

}  // namespace outrider
