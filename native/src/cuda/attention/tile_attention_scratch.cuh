// TileAttentionScratch: the shared memory of a block of TileAttention.
#pragma once

#include <cstddef>

#include "cuda/attention/attend_works.cuh"
#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/merged_softmax.cuh"
#include "cuda/attention/tile_queries.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/values/words.h"

namespace outrider::cuda {

/// Left operands are stored in the order of the lanes.
struct TileAttentionScratch {
    static constexpr int kQueries = kTileQueries;
    static constexpr int kThreads = kChunks * kWarp;
    static constexpr int kApart =
        8;  // floats between the sums of two queries, so that they are in different banks

    Words<4>* queries;    // [units, kSteps, kWarp]
    PartMerge* merges;    // [kChunks, kQueries], of a span's chunks
    PartMerge* joins;     // [kQueries], of a span, or of a stretch
    Softmax* parts;       // [kChunks, kQueries]
    Softmax* softmax;     // [kQueries], of the stretch's spans so far
    Softmax* whole;       // [kQueries], of the stretches so far
    float* totals;        // [kQueries, head_dim], of the stretch's spans so far
    float* whole_totals;  // the same, of the stretches so far
    float* sums;          // [kChunks, kQueries, round_dims + kApart]
    int round_dims;       // dimensions that are merged at once

    __device__ TileAttentionScratch(char* shared, int head_dim, const Depth& depth)
        : queries(reinterpret_cast<Words<4>*>(shared)),
          merges(reinterpret_cast<PartMerge*>(queries + units_of(head_dim) * kSteps * kWarp)),
          joins(merges + kChunks * kQueries),
          parts(reinterpret_cast<Softmax*>(joins + kQueries)),
          softmax(parts + kChunks * kQueries),
          whole(softmax + kQueries),
          totals(reinterpret_cast<float*>(whole + kQueries)),
          whole_totals(totals + kQueries * head_dim),
          sums(whole_totals + kQueries * head_dim),
          round_dims(depth.round_units * kUnitDims) {}

    __device__ float* sums_of(int chunk, int query) const {
        return sums + (chunk * kQueries + query) * (round_dims + kApart);
    }
    /// A query's maximum over the first `chunks` chunks of a span.
    __device__ float maximum_of(int query, int chunks) const {
        float maximum = minus_infinity();
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
            const Softmax& part = parts[chunk * kQueries + query];
            const bool is_joined = chunk < chunks && !is_empty(part);  // an empty part could hide a NaN
            maximum = is_joined ? Greater()(maximum, part.maximum) : maximum;
        }
        return maximum;
    }
    /// A query's softmax of a span, whose merges must have been computed.
    __device__ Softmax softmax_of_span(int query) const {
        float sum = 0.0f;
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
            sum = merges[chunk * kQueries + query].of(sum, parts[chunk * kQueries + query].sum);
        }
        return {maximum_of(query, kChunks), sum};
    }

    OUTRIDER_HOST_DEVICE static size_t bytes(int head_dim, const Depth& depth) {
        constexpr size_t kEach = (kChunks + 1) * sizeof(PartMerge) + (kChunks + 2) * sizeof(Softmax);
        const size_t floats = 2 * head_dim + kChunks * (depth.round_units * kUnitDims + kApart);
        return units_of(head_dim) * kSteps * kWarp * sizeof(Words<4>) +
               kQueries * (kEach + floats * sizeof(float));
    }
};

}  // namespace outrider::cuda
