#include <algorithm>
#include <atomic>
#include <cstdint>

#include "sampling/host/host_run_draws.h"
#include "sampling/host/sample_row.h"
#include "sampling/row_sampler.h"

namespace outrider {
namespace {

class HostRowSampler final : public RowSampler {
  public:
    explicit HostRowSampler(ThreadPool& pool) : pool_(pool), scratch_(pool.size()) {}

    void reserve(int64_t) override {}

    std::vector<RowSample> sample(const std::vector<SamplingRow>& rows) override {
        std::vector<RowSample> samples(rows.size());
        std::atomic<size_t> next{0};
        // One task per scratch; each takes the next row, and the rows that follow it, until none is left.
        pool_.parallel_for(static_cast<int64_t>(std::min(scratch_.size(), rows.size())), [&](int64_t task) {
            for (size_t row = next++; row < rows.size(); row = next++) {
                if (row == 0 || !rows[row].follows(rows[row - 1])) {
                    sample_from(row, rows, &scratch_[task], &samples);
                }
            }
        });
        return samples;
    }

    std::unique_ptr<RunDraws> begin_run(const std::vector<RunningRow>& rows, const NextRows& next) override {
        return std::make_unique<HostRunDraws>(*this, rows, next);
    }

  private:
    /// Samples a row and then the rows that follow it, since each starts from the level of the one before.
    static void sample_from(size_t row, const std::vector<SamplingRow>& rows, RowScratch* scratch,
                            std::vector<RowSample>* samples) {
        (*samples)[row] = sample_row(rows[row], scratch);
        while (++row < rows.size() && rows[row].follows(rows[row - 1])) {
            SamplingRow following = rows[row];
            following.level = (*samples)[row - 1].level;
            (*samples)[row] = sample_row(following, scratch);
        }
    }

    ThreadPool& pool_;
    std::vector<RowScratch> scratch_;  // one per thread
};

}  // namespace

std::unique_ptr<RowSampler> make_host_row_sampler(ThreadPool& pool) {
    return std::make_unique<HostRowSampler>(pool);
}

}  // namespace outrider
