#include "processing.h"

#include <algorithm>
#include <limits>

namespace outrider {
namespace {

float penalised(float logit, int generated, const SamplingParams& params) {
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    logit -= params.frequency_penalty * static_cast<float>(generated);
    return generated > 0 ? logit - params.presence_penalty : logit;
}

void apply_penalties(const SamplingRow& row, float* processed) {
    const SamplingParams& params = row.params();
    const TokenCounts& counts = row.state->counts();
    for (const auto& [id, generated] : counts.entries()) {
        processed[id] = penalised(row.logits[id], generated, params);
    }
    const int32_t* end = row.predictions + row.num_predictions;
    for (const int32_t* id = row.predictions; id != end; ++id) {
        const auto predicted = static_cast<int>(std::count(row.predictions, end, *id));
        processed[*id] = penalised(row.logits[*id], counts.generated(*id) + predicted, params);
    }
}

bool masks_stop_ids(const SamplingRow& row) {
    return row.num_generated() < row.params().min_tokens && !row.params().stop_ids.empty();
}

}  // namespace

const float* process_logits(const SamplingRow& row, std::vector<float>* scratch) {
    const SamplingParams& params = row.params();
    if (!params.penalises() && params.logit_bias.empty() && !masks_stop_ids(row)) {
        return row.logits;
    }
    scratch->assign(row.logits, row.logits + row.vocab_size);
    float* processed = scratch->data();
    if (params.penalises()) {
        apply_penalties(row, processed);
    }
    for (const auto& [id, bias] : params.logit_bias) {
        processed[id] += bias;
    }
    if (masks_stop_ids(row)) {
        for (const int32_t id : params.stop_ids) {
            processed[id] = -std::numeric_limits<float>::infinity();
        }
    }
    return processed;
}

}  // namespace outrider
