// HostRunDraws: a run's draws where the host can read the logits.
#pragma once

#include <vector>

#include "outrider/decoder/next_rows.h"
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
        std::vector<int32_t> history;  // its predictions, then what it has drawn
        int num_left;                  // draws
        bool has_place;                // in the next pass
        double least_chance;
        double chance = 1;     // of all that it has drawn
        bool is_over = false;  // a draw failed, or it has ended early: its further draws are ignored
        std::vector<int32_t> tokens{};
    };

    void settle(const RowSample& sample, int row);

    RowSampler& sampler_;
    std::vector<Run> runs_;
    NextRows next_;
};

}  // namespace outrider
