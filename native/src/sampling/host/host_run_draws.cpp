#include "sampling/host/host_run_draws.h"

#include <algorithm>
#include <utility>

#include "outrider/device/operations.h"
#include "sampling/chance.h"

namespace outrider {

HostRunDraws::HostRunDraws(RowSampler& sampler, const std::vector<RunningRow>& rows, const NextRows& next)
    : sampler_(sampler), next_(next) {
    for (const RunningRow& from : rows) {
        const int32_t* predictions = from.row.predictions;
        const bool has_place = from.count > 1;
        runs_.push_back({from.row,
                         {predictions, predictions + from.row.num_predictions},
                         from.count,
                         has_place,
                         from.least_chance});
        runs_.back().row.wants_margin =
            has_place && from.least_chance > 0 && from.row.state->noise_ids() == nullptr;
    }
}

bool HostRunDraws::draw(int num_rows) {
    std::vector<SamplingRow> rows;
    for (int row = 0; row < num_rows; ++row) {
        Run& run = runs_[row];
        run.row.predictions = run.history.data();
        run.row.num_predictions = static_cast<int>(run.history.size());
        rows.push_back(run.row);
    }
    const std::vector<RowSample> samples = sampler_.sample(rows);
    for (int row = 0; row < num_rows; ++row) {
        settle(samples[row], row);
    }
    return std::any_of(runs_.begin(), runs_.end(),
                       [](const Run& run) { return run.num_left > 0 && !run.is_over; });
}

void HostRunDraws::settle(const RowSample& sample, int row) {
    Run& run = runs_[row];
    run.is_over = run.is_over || sample.status != SampleStatus::drawn;
    if (!run.is_over) {
        run.tokens.push_back(sample.token_id);
    }
    if (run.row.wants_margin && !run.is_over) {
        run.chance *= chance_of(sample.margin);
        run.is_over = run.chance < run.least_chance;
    }
    run.history.push_back(std::max(sample.token_id, 0));
    --run.num_left;
    if (run.has_place) {
        next_.token_ids[row] = run.history.back();
        next_.positions[row] = run.num_left > 0 ? next_.positions[row] + 1 : kInactive;
    }
}

std::vector<std::vector<int32_t>> HostRunDraws::tokens() {
    std::vector<std::vector<int32_t>> tokens;
    tokens.reserve(runs_.size());
    for (Run& run : runs_) {
        tokens.push_back(std::move(run.tokens));
    }
    return tokens;
}

}  // namespace outrider
