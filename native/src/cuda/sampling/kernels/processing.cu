#include "cuda/primitives/launch.cuh"
#include "cuda/sampling/kernels/processing.h"
#include "cuda/sampling/kernels/softmax.h"
#include "sampling/penalty.h"
#include "sampling/steps/guided_logit.h"

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

struct CopyLogit {
    DrawBatch batch;

    __device__ void operator()(int64_t index) const {
        const DrawRow& row = batch.rows[index / batch.vocab_size];
        const int64_t token_id = index % batch.vocab_size;
        const bool is_allowed =
            row.has_noise(token_id) && (row.mask < 0 || may_draw(batch.masks + row.mask, token_id));
        batch.processed[index] = is_allowed ? row.logits[token_id] : -kInfinity;  // edits cannot raise it
    }
};

struct EditLogit {
    DrawBatch batch;

    __device__ void operator()(int64_t index) const {
        const Edit& edit = batch.edits[index];
        const int64_t row = edit.row - batch.first_row;
        if (row < 0 || row >= batch.num_rows || edit.token_id == kNoToken) {
            return;
        }
        float& logit = batch.processed[row * batch.vocab_size + edit.token_id];
        if (edit.counted.seen > 0) {
            logit = penalised(logit, edit.counted, batch.rows[row].numbers);
        }
        if (edit.repeating > 0) {
            logit -= edit.repeating;
        }
        if (edit.biased) {
            logit += edit.bias;
        }
        if (edit.masked > 0) {
            logit = -kInfinity;
        }
    }
};

struct ScaleLogit {
    DrawBatch batch;

    __device__ void operator()(int64_t index) const {
        const SamplingNumbers& numbers = batch.rows[index / batch.vocab_size].numbers;
        const float logit = batch.processed[index];
        const bool is_scaled = !numbers.greedy() && !numbers.steps.in_use;
        batch.distribution[index] = is_scaled ? logit / numbers.temperature : logit;
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

void process(const Stream& stream, const DrawBatch& batch) {
    for_each(stream, batch.num_rows * batch.vocab_size, CopyLogit{batch});
    for_each(stream, batch.num_edits, EditLogit{batch});
    for_each(stream, batch.num_rows * batch.vocab_size, ScaleLogit{batch});
}

}  // namespace outrider::cuda
