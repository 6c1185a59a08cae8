#include "sampling/run_blocks.h"

#include <numeric>

namespace outrider {
namespace {

/// A block for each run. The first row that draws is requested for each run, then the second for those that are longer,
/// and so on.
Batch make_blocks(const Batch& batch, const Runners& runners, const FeatureBlock& block) {
    std::vector<int> sizes;
    for (const int count : runners.counts) {
        sizes.push_back(block_rows(block, count));
    }
    Batch blocks(std::reduce(sizes.begin(), sizes.end()), runners.num_runs(), batch.max_blocks);
    std::vector<int> first_rows;
    for (int run = 0; run < runners.num_runs(); ++run) {
        const int row = runners.rows[run];
        const auto table = batch.block_tables.begin() + int64_t{batch.sequences[row]} * batch.max_blocks;
        std::vector<int32_t> token_ids(sizes[run], block.mask_token);
        token_ids.front() = batch.token_ids[row];
        first_rows.push_back(blocks.num_rows + sizes[run] - runners.counts[run]);
        blocks.append(token_ids, batch.positions[row] + 1, {table, table + batch.max_blocks}, 0);
    }
    for (int draw = 0; draw < runners.counts.front(); ++draw) {
        for (int run = 0; run < runners.num_longer(draw); ++run) {
            blocks.logit_rows[blocks.num_logits++] = first_rows[run] + draw;
        }
    }
    return blocks;
}

}  // namespace

std::vector<std::vector<int32_t>> run_blocks(Decoder& decoder, const Batch& batch, Sampler& sampler,
                                             const Runners& runners) {
    decoder.store_context(batch);
    if (runners.num_runs() == 0) {
        return {};
    }
    const Logits logits =
        decoder.forward(make_blocks(batch, runners, *decoder.config().features->block)).logits();
    NextRows next;
    if (runners.num_longer(1) > 0) {
        next = decoder.place(first_step(batch, runners, batch.max_blocks), batch.max_blocks);
    }
    int taken = runners.num_runs();
    return sampler.sample_ahead(logits.first(taken), runners.sequences, runners.counts, runners.least_chances,
                                next, [&](int num_rows) {
                                    decoder.take_logits(taken, num_rows);
                                    taken += num_rows;
                                });
}

}  // namespace outrider
