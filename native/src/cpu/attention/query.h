// Query: one head of one row, and its running softmax (Milakov, Gimelshein, arXiv 1805.02867).
#pragma once

#include "cpu/attention/attention_part.h"
#include "cpu/attention/kv_block.h"
#include "cpu/vec/elementary.h"
#include "cpu/vec/vec.h"
#include "outrider/device/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// The softmax covers the chunks so far. The arrays are members, so that those of several queries are a
/// constant stride apart.
struct Query {
    alignas(kCacheLine) float values[kMaxHeadDim + kMostTurning];  // [head_dim]
    float total[kMaxHeadDim];                                      // [value_width], sum of weight * value
    float weights[kBlockSize];                                     // scores, then e^(score - maximum)
    int64_t first_position;                                        // first position that it attends to
    int64_t last_position;                                         // its own position, or its end
    int64_t row;
    int64_t head;
    float maximum;
    float sum;
    int64_t low;  // slots of the present chunk that it attends to: low ... high - 1
    int64_t high;

    bool attends() const { return low < high; }
};

/// Applies the soft cap to the chunk's scores and returns their maximum. Slots outside the query's range may
/// hold any value, NaN included, so their scores are replaced.
inline float mask_scores(Query& query, float softcap) {
    const Vec nothing = splat(-__builtin_inff());
    const bool all = query.low == 0 && query.high == kBlockSize;
    Vec highest = nothing;
    for (int slot = 0; slot < kBlockSize; slot += kLanes) {
        Vec scores = load(query.weights + slot);
        if (softcap != 0.0f) {
            scores = soft_capped(scores, softcap);
        }
        if (!all) {
            const IntVec slots = lane_indices() + slot;
            const IntVec valid =
                (slots >= static_cast<int32_t>(query.low)) & (slots < static_cast<int32_t>(query.high));
            scores = choose(valid, scores, nothing);
        }
        store(query.weights + slot, scores);
        highest = maximum(highest, scores);
    }
    return max_lanes(highest);
}

/// Turns the chunk's scores into weights of its values, and rescales the running sums to the new maximum:
/// `shrink` is e^(old maximum - new maximum).
template <typename Block>
inline void weigh_query(Query& query, float shrink, const Block& block) {
    Vec sums = {};
    for (int slot = 0; slot < kBlockSize; slot += kLanes) {
        Vec weights = exponential(load(query.weights + slot) - query.maximum);
        sums += weights;
        if constexpr (kHasScales<typename Block::Number>) {
            weights = weights * load(block.value_scales + slot);
        }
        store(query.weights + slot, weights);
    }
    query.sum = query.sum * shrink + sum_lanes(sums);
    if (shrink == 1.0f) {
        return;  // in a long context, most chunks do not change the maximum
    }
    for (int64_t dim = 0; dim < block.value_width; dim += kLanes) {
        store(query.total + dim, load(query.total + dim) * shrink);
    }
}

/// Computes the chunk's weights for all queries that attend to some of it; one vector exponential covers all
/// their changes of the maximum.
template <int kCount, typename Block>
inline void weigh_chunk(Query* queries, float softcap, const Block& block) {
    static_assert(kCount <= kLanes, "one lane for each query");
    float changes[kLanes] = {};
    for (int index = 0; index < kCount; ++index) {
        Query& query = queries[index];
        if (query.attends()) {
            const float chunk_maximum = mask_scores(query, softcap);
            const float raised = query.maximum > chunk_maximum ? query.maximum : chunk_maximum;
            changes[index] = query.maximum - raised;
            query.maximum = raised;
        }
    }
    float shrinks[kLanes];
    store(shrinks, exponential(load(changes)));
    for (int index = 0; index < kCount; ++index) {
        if (queries[index].attends()) {
            weigh_query(queries[index], shrinks[index], block);
        }
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
