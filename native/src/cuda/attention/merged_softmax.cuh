// Softmax: the parts of a running softmax (Milakov, Gimelshein, arXiv 1805.02867), and how two of them are
// merged.
#pragma once

#include "cuda/primitives/reduce.cuh"
#include "cuda/values/elementary.cuh"

namespace outrider::cuda {

/// The softmax of some scores: their maximum, and the sum of e^(score - maximum).
struct Softmax {
    float maximum;
    float sum;
};

/// The factors of two parts of a softmax that are merged.
struct Merge {
    float maximum;
    float first;
    float second;

    __device__ Merge(const Softmax& before, const Softmax& part)
        : maximum(Greater()(before.maximum, part.maximum)),
          first(exponential_below_one(before.maximum - maximum)),
          second(exponential_below_one(part.maximum - maximum)) {}

    /// Takes a part of -0 for 0, since -0 becomes 0 if a part is stored between two merges.
    __device__ float of(float before, float part) const { return fmaf(before, first, part * second + 0.0f); }
};

__device__ inline Softmax empty_softmax() {
    return {minus_infinity(), 0.0f};
}

/// Whether no score of the part is attended to.
__device__ inline bool is_empty(const Softmax& part) {
    return part.maximum == minus_infinity();
}

/// How a part is merged with those before it; an empty part changes nothing.
struct PartMerge {
    Merge merge;
    bool is_empty;

    __device__ PartMerge(const Softmax& before, const Softmax& part)
        : merge(before, part), is_empty(cuda::is_empty(part)) {}

    __device__ float of(float before, float part) const { return is_empty ? before : merge.of(before, part); }
    __device__ Softmax of(const Softmax& before, const Softmax& part) const {
        return is_empty ? before : Softmax{merge.maximum, merge.of(before.sum, part.sum)};
    }
};

}  // namespace outrider::cuda
