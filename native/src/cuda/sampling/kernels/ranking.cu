#include "cuda/primitives/launch.cuh"
#include "cuda/sampling/kernels/bitonic_sort.cuh"
#include "cuda/sampling/kernels/ranking.h"
#include "cuda/sampling/kernels/selection.cuh"

namespace outrider::cuda {
namespace {

/// A block ranks one row.
struct RankCandidates {
    static constexpr int kThreads = Selection::kThreads;
    static constexpr int kBlocksPerMultiprocessor = 1;

    DrawBatch batch;

    __device__ void operator()(const Block& block) const {
        const int64_t row = block.index;
        const DrawRow& params = batch.rows[row];
        if (!batch.is_drawn(row) || params.num_candidates == 0) {
            return;
        }
        Candidates candidates{batch.values(Stage::processed, row), batch.vocab_size,
                              batch.drawn[row].raw.maximum.value};
        candidates.last = Selection::last_place(block, candidates, AtMost{params.num_candidates});
        Scored* ranked = batch.ranked + row * batch.ranked_size;
        gather(block, candidates, ranked);
        sort_best_first<kThreads>(block, batch.ranked_size, ranked);
    }

    /// Gathers the candidates in any order; the rest of `ranked` is filled with entries worse than any of
    /// them.
    __device__ void gather(const Block& block, const Candidates& candidates, Scored* ranked) const {
        for (int64_t i = block.thread; i < batch.ranked_size; i += kThreads) {
            ranked[i] = {-kInfinity, static_cast<int32_t>(i)};
        }
        auto* count = reinterpret_cast<uint64_t*>(block.shared);
        block.synchronize();
        if (block.thread == 0) {
            *count = 0;
        }
        block.synchronize();
        for (int64_t id = block.thread; id < batch.vocab_size; id += kThreads) {
            if (candidates.exists(id, candidates.place(id))) {
                ranked[atomic_add(count, 1)] = {candidates.values[id], static_cast<int32_t>(id)};
            }
        }
        block.synchronize();
    }
};

}  // namespace

void rank(const Stream& stream, const DrawBatch& batch) {
    for_each_block(stream, batch.num_rows, sizeof(Selection::Shared), RankCandidates{batch});
}

}  // namespace outrider::cuda
