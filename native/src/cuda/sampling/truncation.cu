#include "cuda/launch.cuh"
#include "cuda/sampling/ranking.h"
#include "cuda/sampling/softmax.h"
#include "cuda/sampling/truncation.h"
#include "sampling/portable_math.h"

namespace outrider::cuda {
namespace {

__device__ inline double weight(float value, float best) {
    return portable_exp(static_cast<double>(value) - static_cast<double>(best));
}

struct WeighRanked {
    DrawBatch batch;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / batch.ranked_size;
        if (batch.is_drawn(row) && batch.rows[row].is_cut()) {
            const float best = batch.drawn[row].distribution.maximum.value;
            batch.weights[index] = weight(batch.ranked[index].value, best);
        }
    }
};

/// Finds a row's last candidate that top-k and top-p keep, the weights added up from the best on.
struct FindCut {
    DrawBatch batch;

    __device__ void operator()(int64_t row) const {
        if (batch.is_drawn(row) && batch.rows[row].is_cut()) {
            const int64_t limit = num_within_top_k(row);
            const int64_t kept = batch.rows[row].top_p < 1 ? num_within_top_p(row, limit) : limit;
            batch.drawn[row].cut = batch.ranked[row * batch.ranked_size + kept - 1];
        }
    }

    /// Tokens at minus infinity never are.
    __device__ int64_t num_within_top_k(int64_t row) const {
        const Scored* ranked = batch.ranked + row * batch.ranked_size;
        const int64_t top_k = batch.rows[row].top_k;
        const int64_t most = top_k > 0 ? top_k : batch.vocab_size;
        int64_t count = 0;
        while (count < most && ranked[count].value > -kInfinity) {
            ++count;
        }
        return count;
    }

    __device__ int64_t num_within_top_p(int64_t row, int64_t limit) const {
        const double* weights = batch.weights + row * batch.ranked_size;
        double total = 0.0;
        for (int64_t i = 0; i < limit; ++i) {
            total += weights[i];
        }
        const DrawRow& params = batch.rows[row];
        const double wanted = params.top_p * (params.top_k > 0 ? total : batch.drawn[row].distribution.sum);
        double sum = 0.0;
        for (int64_t i = 0; i < limit; ++i) {
            sum += weights[i];
            if (sum >= wanted) {
                return i + 1;
            }
        }
        return limit;
    }
};

struct MaskValue {
    DrawBatch batch;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / batch.vocab_size;
        const DrawRow& params = batch.rows[row];
        if (!batch.is_drawn(row) || !params.is_truncated()) {
            return;
        }
        float& value = batch.distribution[index];
        const Scored token{value, static_cast<int32_t>(index % batch.vocab_size)};
        const float best = batch.drawn[row].distribution.maximum.value;
        if ((params.is_cut() && is_better(batch.drawn[row].cut, token)) ||
            (params.min_p > 0 && weight(value, best) < params.min_p)) {
            value = -kInfinity;
        }
    }
};

}  // namespace

void truncate(const Stream& stream, const DrawBatch& batch) {
    sum_exponentials(stream, batch, Stage::distribution);
    rank(stream, batch, Stage::distribution);
    for_each(stream, batch.num_rows * batch.ranked_size, WeighRanked{batch});
    for_each(stream, batch.num_rows, FindCut{batch});
    for_each(stream, batch.num_rows * batch.vocab_size, MaskValue{batch});
}

}  // namespace outrider::cuda
