#include "cuda/primitives/launch.cuh"
#include "cuda/sampling/kernels/guidance.h"
#include "cuda/sampling/kernels/softmax.h"
#include "sampling/guided_logit.h"

namespace outrider::cuda {
namespace {

struct GuideLogit {
    DrawBatch batch;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / batch.vocab_size;
        const int64_t token_id = index % batch.vocab_size;
        const DrawRow& params = batch.rows[row];
        if (!params.is_guided()) {
            return;
        }
        const DrawnRow& drawn = batch.drawn[row];
        batch.guided[index] =
            guided_logit(params.guidance_scale, params.own_logits[token_id], drawn.own.log_sum_exp(),
                         params.negative_logits[token_id], drawn.negative.log_sum_exp());
    }
};

}  // namespace

void guide(const Stream& stream, const DrawBatch& batch) {
    for (const Stage stage : {Stage::own, Stage::negative}) {
        find_maxima(stream, batch, stage);
        sum_exponentials(stream, batch, stage);
    }
    for_each(stream, batch.num_rows * batch.vocab_size, GuideLogit{batch});
}

}  // namespace outrider::cuda
