// Softmax: what parts of a running softmax (Milakov, Gimelshein, arXiv 1805.02867) are, and how two become
// one.
#pragma once

#include "cuda/primitives/reduce.cuh"
#include "cuda/values/elementary.cuh"

namespace outrider::cuda {

/// A softmax so far: the maximum of the scores, and the sum of the exponentials of what they are below it.
struct Softmax {
    float maximum;
    float sum;
};

/// What two parts of a softmax are multiplied by when they become one.
struct Merge {
    float maximum;
    float first;
    float second;

    __device__ Merge(const Softmax& before, const Softmax& part)
        : maximum(Greater()(before.maximum, part.maximum)),
          first(exponential_below_one(before.maximum - maximum)),
          second(exponential_below_one(part.maximum - maximum)) {}

    /// A part that is -0 is taken for 0, which it has become where it was kept between two merges.
    __device__ float of(float before, float part) const { return fmaf(before, first, part * second + 0.0f); }
};

__device__ inline Softmax empty_softmax() {
    return {minus_infinity(), 0.0f};
}

/// Nothing of the part is attended to.
__device__ inline bool is_empty(const Softmax& part) {
    return part.maximum == minus_infinity();
}

/// How a part joins those before it.
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
