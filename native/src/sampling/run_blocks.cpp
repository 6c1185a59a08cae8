#include "sampling/run_blocks.h"

#include <algorithm>
#include <numeric>

namespace outrider {
namespace {

/// Requests the first row that draws of each run, then the second for those that are longer, and so on. `masks` are the
/// rows after those that the runs start from.
void request_logits(Batch& rows, const Runners& runners, const std::vector<int>& starts,
                    const std::vector<int>& masks) {
    rows.num_logits = 0;
    for (int draw = 0; draw < runners.counts.front(); ++draw) {
        for (int run = 0; run < runners.num_longer(draw); ++run) {
            rows.logit_rows[rows.num_logits++] = draw == 0 ? starts[run] : masks[run] + draw - 1;
        }
    }
}

/// The batch's rows, and after them the masks that continue those that the runs start from.
Batch with_masks(const Batch& batch, const Runners& runners, int mask_token) {
    const int num_masks = std::reduce(runners.counts.begin(), runners.counts.end()) - runners.num_runs();
    Batch rows = batch.trimmed(batch.max_blocks, num_masks);
    std::vector<int> masks;
    for (int run = 0; run < runners.num_runs(); ++run) {
        const int start = runners.rows[run];
        masks.push_back(rows.num_rows);
        for (int mask = 1; mask < runners.counts[run]; ++mask, ++rows.num_rows) {
            rows.token_ids[rows.num_rows] = mask_token;
            rows.positions[rows.num_rows] = batch.positions[start] + mask;
            rows.sequences[rows.num_rows] = batch.sequences[start];
        }
    }
    request_logits(rows, runners, runners.rows, masks);
    return rows;
}

/// A block for each run.
Batch make_blocks(const Batch& batch, const Runners& runners, const FeatureBlock& block) {
    std::vector<int> sizes;
    for (const int count : runners.counts) {
        sizes.push_back(block_rows(block, count));
    }
    Batch blocks(std::reduce(sizes.begin(), sizes.end()), runners.num_runs(), batch.max_blocks);
    std::vector<int> starts;
    std::vector<int> masks;
    for (int run = 0; run < runners.num_runs(); ++run) {
        const int row = runners.rows[run];
        const auto table = batch.block_tables.begin() + int64_t{batch.sequences[row]} * batch.max_blocks;
        std::vector<int32_t> token_ids(sizes[run], block.mask_token);
        token_ids.front() = batch.token_ids[row];
        starts.push_back(blocks.num_rows + sizes[run] - runners.counts[run]);
        masks.push_back(starts.back() + 1);
        blocks.append(token_ids, batch.positions[row] + 1, {table, table + batch.max_blocks}, 0,
                      batch.adapters[batch.sequences[row]]);
    }
    request_logits(blocks, runners, starts, masks);
    return blocks;
}

/// Runs the pass that computes the blocks.
Logits compute(Decoder& decoder, const Batch& batch, const Runners& runners, const FeatureBlock& block) {
    if (block.continues_rows) {
        const Batch rows = with_masks(batch, runners, block.mask_token);
        if (const int num_masks = rows.num_rows - batch.num_rows; num_masks > 0) {
            decoder.add_masks(batch.num_rows, num_masks);
        }
        return decoder.forward(rows).logits();
    }
    decoder.store_context(batch);
    return decoder.forward(make_blocks(batch, runners, block)).logits();
}

/// Ends each run before the first draw that makes the estimated chance that all its draws are accepted too small.
void end_early(Decoder& decoder, const Batch& batch, const Runners& runners,
               std::vector<std::vector<int32_t>>& tokens) {
    std::vector<int32_t> before;
    std::vector<int> run_of;
    for (int draw = 0; draw < runners.counts.front(); ++draw) {
        for (int run = 0; run < runners.num_longer(draw); ++run) {
            const bool is_drawn = draw > 0 && draw <= static_cast<int>(tokens[run].size());
            before.push_back(is_drawn ? tokens[run][draw - 1] : batch.token_ids[runners.rows[run]]);
            run_of.push_back(run);
        }
    }
    const std::vector<float> confidences = decoder.confidences(before);
    std::vector<double> chances(tokens.size(), 1.0);
    std::vector<size_t> lengths(tokens.size());
    for (size_t row = 0; row < confidences.size(); ++row) {
        const int run = run_of[row];
        chances[run] *= confidences[row];
        lengths[run] += chances[run] >= runners.least_chances[run] ? 1 : 0;
    }
    for (size_t run = 0; run < tokens.size(); ++run) {
        tokens[run].resize(std::min(tokens[run].size(), std::max<size_t>(lengths[run], 1)));
    }
}

}  // namespace

std::vector<std::vector<int32_t>> run_blocks(Decoder& decoder, const Batch& batch, Sampler& sampler,
                                             const Runners& runners) {
    const FeatureBlock& block = *decoder.config().block();
    const int num_runs = runners.num_runs();
    if (num_runs == 0) {
        if (block.continues_rows) {
            decoder.forward(batch);
        } else {
            decoder.store_context(batch);
        }
        return {};
    }
    const Logits logits = compute(decoder, batch, runners, block);
    NextRows next;  // only a Markov head reads the token before a run's first draw
    if (const int num_placed = block.markov_rank > 0 ? num_runs : runners.num_longer(1); num_placed > 0) {
        next = decoder.place(first_step(batch, runners, num_placed, batch.max_blocks), batch.max_blocks);
    }
    decoder.take_logits(0, num_runs, next.token_ids);
    int taken = num_runs;
    const std::vector<double> never(num_runs, 0.0);
    std::vector<std::vector<int32_t>> tokens =
        sampler.sample_ahead(logits.first(num_runs), runners.sequences, runners.counts,
                             block.has_confidence ? never : runners.least_chances, next, [&](int num_rows) {
                                 decoder.take_logits(taken, num_rows, next.token_ids);
                                 taken += num_rows;
                             });
    const bool ends_early = std::any_of(runners.least_chances.begin(), runners.least_chances.end(),
                                        [](double chance) { return chance > 0; });
    if (block.has_confidence && ends_early) {
        end_early(decoder, batch, runners, tokens);
    }
    return tokens;
}

}  // namespace outrider
