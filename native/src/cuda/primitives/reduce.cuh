// reduce: combines a value of each of a block's threads; sum_before: sums the values of the threads before
// each.
#pragma once

#include "cuda/primitives/warp.cuh"

namespace outrider::cuda {

struct Greater {
    template <typename T>
    __device__ T operator()(T left, T right) const {
        return left > right ? left : right;
    }
};

struct Less {
    template <typename T>
    __device__ T operator()(T left, T right) const {
        return left < right ? left : right;
    }
};

struct Sum {
    template <typename T>
    __device__ T operator()(T left, T right) const {
        return left + right;
    }
};

/// All threads get the same result, whatever the order: `combine` must be associative and commutative to the
/// bit. Shared memory needs room for a value of each warp.
template <int kThreads, typename T, typename Combine>
__device__ T reduce(const Block& block, T value, const Combine& combine) {
    auto* values = reinterpret_cast<T*>(block.shared);
    value = reduce_warp(value, combine);
    block.synchronize();  // the previous reduction's result has been read
    if (block.lane() == 0) {
        values[block.warp()] = value;
    }
    block.synchronize();
    value = values[0];
    for (int warp = 1; warp < kThreads / kWarp; ++warp) {
        value = combine(value, values[warp]);
    }
    return value;
}

/// The sum of an integer over the lanes before this one; `value` becomes the sum over all lanes.
template <typename T>
__device__ T sum_before_in_warp(const Block& block, T& value) {
    T before = 0;
    for (int mask = 1; mask < kWarp; mask *= 2) {
        const T beside = shuffle_xor(value, mask);  // sum over as many lanes as `value` covers by now
        before += (block.lane() & mask) != 0 ? beside : 0;
        value += beside;
    }
    return before;
}

/// The sum of an integer over the threads before this one; `total` gets the sum over all threads.
/// # sums: [kThreads / kWarp], shared
template <int kThreads, typename T>
__device__ T sum_before(const Block& block, T value, T* sums, T* total) {
    T before = sum_before_in_warp(block, value);
    block.synchronize();  // the previous sums have been read
    if (block.lane() == 0) {
        sums[block.warp()] = value;
    }
    block.synchronize();
    *total = 0;
    for (int warp = 0; warp < kThreads / kWarp; ++warp) {
        before += warp < block.warp() ? sums[warp] : 0;
        *total += sums[warp];
    }
    return before;
}

}  // namespace outrider::cuda
