#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/reduce.cuh"
#include "cuda/sampling/kernels/draw.h"
#include "outrider/sampling/noise.h"
#include "sampling/gumbel.h"
#include "sampling/order_key.h"

namespace outrider::cuda {
namespace {

__device__ inline float noise_of_token(const DrawRow& row, uint32_t token_id) {
    const NoiseKey key{row.seed, static_cast<uint64_t>(row.position), NoiseStream::token};
    const auto words = key.words(token_id / 4);
    // Not words[token_id % 4], which would force the words into memory.
    const uint32_t even = (token_id & 2) == 0 ? words[0] : words[2];
    const uint32_t odd = (token_id & 2) == 0 ? words[1] : words[3];
    const uint32_t word = (token_id & 1) == 0 ? even : odd;
    return static_cast<float>(noise_of(static_cast<double>(word)));
}

struct DecideStatus {
    DrawBatch batch;

    __device__ void operator()(int64_t row) const {
        DrawnRow& drawn = batch.drawn[row];
        drawn.status = status_of(drawn);
        drawn.token_id = -1;
    }
};

constexpr int64_t kLargestId = 0x7FFFFFFF;

/// Greater for a greater score; among equal scores, greater for a lower id.
__device__ inline int64_t rank_of(const Scored& token) {
    const float unsigned_zero = token.value + 0.0f;
    return static_cast<int64_t>(order_key(unsigned_zero)) * (int64_t{1} << 32) +
           (kLargestId - token.token_id);
}

/// Finds the best score of one block of values. Float addition is monotone, so values that cannot reach the
/// sum of the best value and the least noise need no noise.
struct DrawBlock {
    static constexpr int kThreads = kThreadsOfValues;
    static constexpr int kBlocksPerMultiprocessor = 16;

    DrawBatch batch;

    __device__ void operator()(const Block& block) const {
        const int64_t row = block.index / batch.num_blocks;
        const int64_t part = block.index % batch.num_blocks;
        const DrawRow& params = batch.rows[row];
        const float* values = batch.values(Stage::distribution, row);
        const float reach = batch.drawn[row].distribution.maximum.value + kMinNoise;
        int64_t best = rank_of({-kInfinity, -1});
        for (int64_t id = part * kSumBlock + block.thread; id < batch.block_end(part); id += kThreads) {
            float score = values[id];
            if (!params.numbers.greedy()) {
                const bool is_in_reach = !(score + kMaxNoise < reach);
                score = is_in_reach ? score + noise_of_token(params, params.noise_id(id)) : -kInfinity;
            }
            best = Greater()(best, rank_of({score, static_cast<int32_t>(id)}));
        }
        best = reduce<kThreads>(block, best, Greater());
        if (block.thread == 0) {
            batch.parts[block.index].winner = best;
        }
    }
};

/// A block draws one row's token.
struct DrawToken {
    static constexpr int kThreads = kThreadsOfRow;
    static constexpr int kBlocksPerMultiprocessor = 4;

    DrawBatch batch;

    __device__ void operator()(const Block& block) const {
        const int64_t row = block.index;
        DrawnRow& drawn = batch.drawn[row];
        if (!batch.is_drawn(row)) {
            return;
        }
        int64_t best = rank_of({-kInfinity, -1});
        for (int64_t part = block.thread; part < batch.num_blocks; part += kThreads) {
            best = Greater()(best, batch.parts[row * batch.num_blocks + part].winner);
        }
        best = reduce<kThreads>(block, best, Greater());
        if (block.thread > 0) {
            return;
        }
        const auto winner = static_cast<int32_t>(kLargestId - (best & 0xFFFFFFFF));
        const DrawRow& params = batch.rows[row];
        drawn.token_id = params.forced_id >= 0 ? params.forced_id : winner;
        drawn.logit = params.logits[drawn.token_id];
        drawn.value = batch.values(Stage::distribution, row)[drawn.token_id];
        if (params.feeds_back) {
            drawn.judged = static_cast<double>(batch.judged[row * batch.vocab_size + drawn.token_id]) -
                           drawn.judged_norm;
        }
    }
};

/// A block counts the better tokens in one block of values.
struct CountBetter {
    static constexpr int kThreads = kThreadsOfValues;
    static constexpr int kBlocksPerMultiprocessor = 16;

    DrawBatch batch;

    __device__ void operator()(const Block& block) const {
        const int64_t row = block.index / batch.num_blocks;
        const int64_t part = block.index % batch.num_blocks;
        const Scored token{batch.drawn[row].logit, batch.drawn[row].token_id};
        const float* values = batch.values(Stage::logits, row);
        int32_t num_better = 0;
        for (int64_t id = part * kSumBlock + block.thread; id < batch.block_end(part); id += kThreads) {
            num_better += is_better({values[id], static_cast<int32_t>(id)}, token) ? 1 : 0;
        }
        num_better = reduce<kThreads>(block, num_better, Sum());
        if (block.thread == 0) {
            batch.parts[block.index].num_better = num_better;
        }
    }
};

/// A block sums up one row's counts.
struct FindRank {
    static constexpr int kThreads = kThreadsOfRow;
    static constexpr int kBlocksPerMultiprocessor = 4;

    DrawBatch batch;

    __device__ void operator()(const Block& block) const {
        int32_t num_better = 0;
        for (int64_t part = block.thread; part < batch.num_blocks; part += kThreads) {
            num_better += batch.parts[block.index * batch.num_blocks + part].num_better;
        }
        num_better = reduce<kThreads>(block, num_better, Sum());
        if (block.thread == 0) {
            batch.drawn[block.index].rank = 1 + num_better;
        }
    }
};

struct ListCandidate {
    DrawBatch batch;
    RankedToken* candidates;
    int64_t max_candidates;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / max_candidates;
        const int64_t place = index % max_candidates;
        const Scored token = batch.ranked[row * batch.ranked_size + place];
        RankedToken& candidate = candidates[index];
        candidate.exists =
            batch.is_drawn(row) && place < batch.rows[row].num_candidates && token.value > -kInfinity;
        if (candidate.exists) {
            candidate.token_id = token.token_id;
            candidate.logit = batch.rows[row].logits[token.token_id];
            candidate.value = batch.values(Stage::distribution, row)[token.token_id];
        }
    }
};

}  // namespace

void decide_status(const Stream& stream, const DrawBatch& batch) {
    for_each(stream, batch.num_rows, DecideStatus{batch});
}

void draw(const Stream& stream, const DrawBatch& batch) {
    for_each_block(stream, batch.num_rows * batch.num_blocks, kThreadsOfValues / kWarp * sizeof(int64_t),
                   DrawBlock{batch});
    for_each_block(stream, batch.num_rows, kThreadsOfRow / kWarp * sizeof(int64_t), DrawToken{batch});
}

void find_ranks(const Stream& stream, const DrawBatch& batch) {
    for_each_block(stream, batch.num_rows * batch.num_blocks, kThreadsOfValues / kWarp * sizeof(int32_t),
                   CountBetter{batch});
    for_each_block(stream, batch.num_rows, kThreadsOfRow / kWarp * sizeof(int32_t), FindRank{batch});
}

void list_candidates(const Stream& stream, const DrawBatch& batch, RankedToken* candidates,
                     int64_t max_candidates) {
    for_each(stream, batch.num_rows * max_candidates, ListCandidate{batch, candidates, max_candidates});
}

}  // namespace outrider::cuda
