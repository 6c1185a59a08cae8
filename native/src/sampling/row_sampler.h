// RowSampler: draws from rows of logits where they lie.
#pragma once

#include <memory>
#include <vector>

#include "outrider/thread_pool.h"
#include "sampling_row.h"

namespace outrider {

/// Every device's row sampler gives the same bits for the same rows.
class RowSampler {
  public:
    virtual ~RowSampler() = default;

    /// Makes room for rows of so many logits, so that no later sample allocates memory of the device.
    virtual void reserve(int64_t vocab_size) = 0;

    /// One sample for each row, whose logits are memory of the device. Called by one thread at a time.
    virtual std::vector<RowSample> sample(const std::vector<SamplingRow>& rows) = 0;
};

/// For logits that the host can read; the pool must outlive it.
std::unique_ptr<RowSampler> make_host_row_sampler(ThreadPool& pool);

}  // namespace outrider
