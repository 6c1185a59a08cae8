// The larger and the smaller of two numbers.
#pragma once

namespace outrider::cuda {

__device__ inline int larger_of(int left, int right) {
    return left > right ? left : right;
}
__device__ inline int smaller_of(int left, int right) {
    return left < right ? left : right;
}

}  // namespace outrider::cuda
