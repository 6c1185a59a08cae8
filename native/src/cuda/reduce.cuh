// reduce: one value of all of a warp's lanes, or of all of a block's threads.
#pragma once

#include "cuda/warp.cuh"

namespace outrider::cuda {

struct Sum {
    __device__ float operator()(float left, float right) const { return left + right; }
};

/// Every lane of the warp calls, and gets the value of a tree whose leaves are kLanes neighbours: first two
/// of them, then four, and so on.
template <int kLanes = kWarp, typename T, typename Combine>
__device__ T reduce_warp(T value, const Combine& combine) {
#pragma unroll
    for (int mask = 1; mask < kLanes; mask *= 2) {
        value = combine(value, shuffle_xor(value, mask));
    }
    return value;
}

/// Every thread gets the same, whatever the order: `combine` is associative and commutative to the bit.
/// Shared memory is for a value of each warp.
template <int kThreads, typename T, typename Combine>
__device__ T reduce(const Block& block, T value, const Combine& combine) {
    auto* values = reinterpret_cast<T*>(block.shared);
    value = reduce_warp(value, combine);
    block.synchronize();  // what was reduced before has been read
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

}  // namespace outrider::cuda
