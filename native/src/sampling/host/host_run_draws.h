// HostRunDraws: a run's draws on the host, from logits in host memory.
#pragma once

#include <vector>

#include "outrider/device/next_rows.h"
#include "sampling/row_sampler.h"
#include "sampling/run_draws.h"

namespace outrider {

class HostRunDraws final : public RunDraws {
  public:
    HostRunDraws(RowSampler& sampler, const std::vector<RunningRow>& rows, const NextRows& next);

    bool draw(int num_rows) override;
    std::vector<std::vector<int32_t>> tokens() override;

  private:
    struct Run {
        SamplingRow row;
        std::vector<int32_t> history;  // the predictions, then the drawn tokens
        int num_left;                  // draws left
        bool has_place;                // the row has a place in the next pass
        double least_chance;
        double chance = 1;     // the estimated chance that a larger model draws the same tokens
        bool is_over = false;  // a draw failed, or the run ended early: further draws are ignored
        std::vector<int32_t> tokens{};
    };

    void settle(const RowSample& sample, int row);

    RowSampler& sampler_;
    std::vector<Run> runs_;
    NextRows next_;
};

}  // namespace outrider
