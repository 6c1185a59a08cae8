#include "sampling/runners.h"

#include <algorithm>
#include <numeric>

namespace outrider {
namespace {

std::vector<size_t> by_length(const std::vector<RunAhead>& runs) {
    std::vector<size_t> order(runs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return runs[a].count > runs[b].count; });
    return order;
}

}  // namespace

Runners::Runners(const Batch& batch, const std::vector<RunAhead>& runs) : order(by_length(runs)) {
    for (const size_t index : order) {
        const RunAhead& run = runs[index];
        const int length = static_cast<int>(run.chain.size());
        rows.push_back(batch.logit_rows[index]);
        sequences.push_back({run.state, run.chain.data(), length, length, run.masks});
        counts.push_back(run.count);
        least_chances.push_back(run.least_chance);
    }
}

int Runners::num_longer(int length) const {
    return static_cast<int>(
        std::count_if(counts.begin(), counts.end(), [=](int count) { return count > length; }));
}

Batch first_step(const Batch& batch, const Runners& runners, int num_runs, int num_blocks) {
    Batch step(num_runs, num_runs, num_blocks);
    for (int i = 0; i < num_runs; ++i) {
        const int row = runners.rows[i];
        const int sequence = batch.sequences[row];
        const auto table = batch.block_tables.begin() + int64_t{sequence} * batch.max_blocks;
        StatePlace state = batch.states[sequence];
        state.position = state.certain;
        state.kept_slot = -1;
        step.append({batch.token_ids[row]}, batch.positions[row],
                    {table, table + std::min(num_blocks, batch.max_blocks)}, 1, batch.adapters[sequence],
                    state);
    }
    return step;
}

}  // namespace outrider
