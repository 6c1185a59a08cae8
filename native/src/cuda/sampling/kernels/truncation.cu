#include "cuda/primitives/launch.cuh"
#include "cuda/sampling/kernels/selection.cuh"
#include "cuda/sampling/kernels/truncation.h"
#include "sampling/portable_math.h"

namespace outrider::cuda {
namespace {

__device__ inline double weight(float value, float best) {
    return portable_exp(static_cast<double>(value) - static_cast<double>(best));
}

struct WeighToken {
    DrawBatch batch;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / batch.vocab_size;
        if (batch.is_drawn(row) && batch.rows[row].numbers.cuts(batch.vocab_size)) {
            const float best = batch.drawn[row].distribution.maximum.value;
            batch.masses[index] = mass_of(weight(batch.distribution[index], best));
        }
    }
};

/// Finds the last candidate of a row that top-k and top-p keep. A block has one row.
struct FindCut {
    static constexpr int kThreads = Selection::kThreads;
    static constexpr int kBlocksPerMultiprocessor = 1;

    DrawBatch batch;

    __device__ void operator()(const Block& block) const {
        const int64_t row = block.index;
        const SamplingNumbers& params = batch.rows[row].numbers;
        if (!batch.is_drawn(row) || !params.cuts(batch.vocab_size)) {
            return;
        }
        const float* values = batch.values(Stage::distribution, row);
        Candidates candidates{values, batch.vocab_size, batch.drawn[row].distribution.maximum.value};
        if (params.has_top_k(batch.vocab_size)) {
            candidates.last = Selection::last_place(block, candidates, AtMost{params.top_k});
        }
        if (params.top_p < 1) {
            candidates.masses = batch.masses + row * batch.vocab_size;
            const auto wanted = [&](uint64_t total) { return share_of(params.top_p, total); };
            candidates.last = Selection::last_place(block, candidates, wanted);
        }
        if (block.thread == 0) {
            const int64_t id = id_of_place(candidates.last);
            batch.drawn[row].cut = {values[id], static_cast<int32_t>(id)};
        }
    }
};

struct MaskValue {
    DrawBatch batch;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / batch.vocab_size;
        const SamplingNumbers& params = batch.rows[row].numbers;
        if (!batch.is_drawn(row) || !params.truncates(batch.vocab_size)) {
            return;
        }
        float& value = batch.distribution[index];
        const Scored token{value, static_cast<int32_t>(index % batch.vocab_size)};
        const float best = batch.drawn[row].distribution.maximum.value;
        if ((params.cuts(batch.vocab_size) && is_better(batch.drawn[row].cut, token)) ||
            (params.min_p > 0 && weight(value, best) < params.min_p)) {
            value = -kInfinity;
        }
    }
};

}  // namespace

void truncate(const Stream& stream, const DrawBatch& batch) {
    for_each(stream, batch.num_rows * batch.vocab_size, WeighToken{batch});
    for_each_block(stream, batch.num_rows, sizeof(Selection::Shared), FindCut{batch});
    for_each(stream, batch.num_rows * batch.vocab_size, MaskValue{batch});
}

}  // namespace outrider::cuda
