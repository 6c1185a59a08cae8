#include "sampling/host/guidance.h"

#include "sampling/host/row/softmax.h"
#include "sampling/steps/guided_logit.h"

namespace outrider {

void guide(const SamplingRow& row, std::vector<float>* guided) {
    const auto norm = [&](const float* logits) {
        return log_sum_exp(logits, row.vocab_size, find_maximum(logits, row.vocab_size).value);
    };
    const double scale = row.params().guidance_scale;
    const double own_norm = norm(row.logits);
    const double negative_norm = norm(row.negative_logits);
    guided->resize(row.vocab_size);
    for (int i = 0; i < row.vocab_size; ++i) {
        (*guided)[i] = guided_logit(scale, row.logits[i], own_norm, row.negative_logits[i], negative_norm);
    }
}

}  // namespace outrider
