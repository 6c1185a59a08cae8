// TileAttentionScratch: the shared memory of a block of TileAttention.
#pragma once

#include <cstddef>

#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/merged_softmax.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/values/words.h"

namespace outrider::cuda {

constexpr int kTileQueries = 16;  // the rows of an mma_m16n8k16
constexpr int kSteps = 2;         // that go through 32 k: dimensions of keys, or a block's positions
constexpr int kUnitDims = 32;
constexpr int kNTilesOfWarp = 2;  // of the values' dimensions, at once

inline OUTRIDER_HOST_DEVICE int units_of(int head_dim) {
    return (head_dim + kUnitDims - 1) / kUnitDims;
}
/// Times that a block's warps go through the dimensions of the values.
inline OUTRIDER_HOST_DEVICE int rounds_of(int head_dim) {
    constexpr int kDimsOfRound = kChunks * kNTilesOfWarp * 8;
    return (head_dim + kDimsOfRound - 1) / kDimsOfRound;
}

__device__ inline int first_dim_of(const Block& block, int round, int n_tile) {
    return ((round * kChunks + block.warp()) * kNTilesOfWarp + n_tile) * 8;
}

__device__ inline bool has_queries(const Group& group, int tile) {
    return tile * kTileQueries < group.queries();
}

/// How a span joins those before it.
struct SpanMerge {
    Merge merge;
    bool is_empty;
};

/// Left operands lie as lanes have them.
template <int kTiles>
struct TileAttentionScratch {
    static constexpr int kQueries = kTiles * kTileQueries;
    static constexpr int kThreads = kChunks * kWarp;
    static constexpr int kValuesOfRound = kTiles * kNTilesOfWarp * 4;  // of a thread

    Words<4>* queries;    // [kTiles, units, kSteps, kWarp]
    Words<4>* weights;    // [kTiles, kChunks, kSteps, kWarp]
    SpanMerge* merges;    // [kQueries]
    Softmax* softmax;     // [kQueries], of the spans so far of a stretch
    Softmax* whole;       // [kQueries], of the stretches so far
    float* maxima;        // [kChunks, kQueries]
    float* sums;          // [kChunks, kQueries]
    float* totals;        // [rounds, kValuesOfRound, kThreads], of the spans so far of a stretch
    float* whole_totals;  // the same, of the stretches so far

    int units;

    __device__ TileAttentionScratch(char* shared, int head_dim)
        : queries(reinterpret_cast<Words<4>*>(shared)),
          weights(queries + kTiles * units_of(head_dim) * kSteps * kWarp),
          merges(reinterpret_cast<SpanMerge*>(weights + kTiles * kChunks * kSteps * kWarp)),
          softmax(reinterpret_cast<Softmax*>(merges + kQueries)),
          whole(softmax + kQueries),
          maxima(reinterpret_cast<float*>(whole + kQueries)),
          sums(maxima + kChunks * kQueries),
          totals(sums + kChunks * kQueries),
          whole_totals(totals + rounds_of(head_dim) * kValuesOfRound * kThreads),
          units(units_of(head_dim)) {}

    __device__ Words<4>& weights_of(int tile, int chunk, int step, int lane) const {
        return weights[((tile * kChunks + chunk) * kSteps + step) * kWarp + lane];
    }
    __device__ const Words<4>& queries_of(int tile, int unit, int step, int lane) const {
        return queries[((tile * units + unit) * kSteps + step) * kWarp + lane];
    }
    __device__ float maximum_of(int query) const { return span_maximum(maxima, kQueries, query); }
    __device__ Softmax softmax_of_span(int query) const {
        return span_softmax(maxima, sums, kQueries, query);
    }

    __device__ float& total_of(int round, int index, int thread) const {
        return totals[(round * kValuesOfRound + index) * kThreads + thread];
    }

    OUTRIDER_HOST_DEVICE static size_t bytes(int head_dim) {
        const size_t operands = kTiles * (units_of(head_dim) + kChunks) * kSteps * kWarp;
        const size_t totals = size_t{2} * rounds_of(head_dim) * kValuesOfRound * kThreads;
        return operands * sizeof(Words<4>) + kQueries * (sizeof(SpanMerge) + 2 * sizeof(Softmax)) +
               (2 * kChunks * kQueries + totals) * sizeof(float);
    }
};

}  // namespace outrider::cuda
