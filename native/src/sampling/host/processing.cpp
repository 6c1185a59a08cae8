#include "sampling/host/processing.h"

#include <algorithm>
#include <limits>

#include "sampling/penalty.h"

namespace outrider {
namespace {

void apply_penalties(const SamplingRow& row, float* processed) {
    row.for_each_counted([&](int32_t id, const Counted& counted) {
        processed[id] = penalised(row.logits[id], counted, row.params());
    });
}

void forbid_others(const uint32_t* mask, int vocab_size, float* processed) {
    for (int first = 0; first < vocab_size; first += kMaskBits) {
        const uint32_t word = mask[first / kMaskBits];
        const int count = std::min(kMaskBits, vocab_size - first);
        for (int bit = 0; bit < count; ++bit) {
            float& logit = processed[first + bit];
            logit = (word >> bit & 1U) != 0 ? logit : -std::numeric_limits<float>::infinity();
        }
    }
}

}  // namespace

const float* process_logits(const SamplingRow& row, std::vector<float>* scratch) {
    const SamplingParams& params = row.params();
    if (!params.penalises() && !(params.dry_multiplier > 0) && params.logit_bias.empty() && !row.masks() &&
        row.mask == nullptr) {
        return row.logits;
    }
    scratch->assign(row.logits, row.logits + row.vocab_size);
    float* processed = scratch->data();
    if (params.penalises()) {
        apply_penalties(row, processed);
    }
    row.for_each_repeating([&](int32_t id, float penalty) { processed[id] -= penalty; });
    for (const auto& [id, bias] : params.logit_bias) {
        processed[id] += bias;
    }
    row.for_each_masked(
        [&](int32_t id, int64_t) { processed[id] = -std::numeric_limits<float>::infinity(); });
    if (row.mask != nullptr) {
        forbid_others(row.mask, row.vocab_size, processed);
    }
    return processed;
}

}  // namespace outrider
