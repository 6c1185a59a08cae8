// The tokens that a pass puts into its states, and where their inputs are: in the ring of the sequence's slot, or in
// the pass.
#pragma once

#include <cstdint>

#include "cuda/values/values.cuh"
#include "outrider/device/operations.h"
#include "outrider/device/state_operations.h"

namespace outrider::cuda {

/// The floats of one value head's rate and decay in a prepared token, a whole copy.
constexpr int kGateFloats = 4;

/// The floats of a prepared token: its channels after the convolution, then the gates of each value head.
__host__ __device__ inline int64_t prepared_width(const DeltaShape& shape) {
    return shape.channels() + int64_t{kGateFloats} * shape.value_heads;
}

/// One sequence of a pass.
class StateTokens {
  public:
    __device__ StateTokens(const DeltaRule& op, int sequence)
        : op_(op), sequence_(sequence), place_(op.states[sequence]) {
        start_ = place_.rows > 0 ? op.places.positions[place_.first_row] : kInactive;
    }

    __device__ bool has_rows() const { return start_ != kInactive; }

    __device__ const StatePlace& place() const { return place_; }
    /// The position of the pass's first row, and the one after its last.
    __device__ int start() const { return start_; }
    __device__ int end() const { return start_ + place_.rows; }
    __device__ int64_t row_of(int position) const { return place_.first_row + position - start_; }

    __device__ float* state(int slot, int head) const {
        return slot_at(slot) + int64_t{head} * op_.shape.key_dim * op_.shape.value_dim;
    }
    __device__ float* ring_row(int slot, int position) const {
        return slot_at(slot) + int64_t{op_.shape.key_dim} * op_.shape.value_size() +
               position % op_.ring_rows * op_.shape.ring_width();
    }
    /// The channels of a position before the convolution.
    __device__ const float* channels(int position) const {
        return position < start_ ? ring_row(place_.slot, position)
                                 : op_.projected + row_of(position) * op_.shape.channels();
    }
    /// Prepared tokens lie in the order of the pass's rows; those of each sequence's ring follow.
    __device__ float* prepared(int position) const {
        const int64_t index = position < start_ ? op_.places.rows + int64_t{sequence_} * op_.ring_rows +
                                                      position % op_.ring_rows
                                                : row_of(position);
        return op_.scratch + index * prepared_width(op_.shape);
    }

  private:
    __device__ float* slot_at(int slot) const {
        return op_.slots + slot * op_.shape.slot_size(op_.ring_rows);
    }

    const DeltaRule& op_;
    int sequence_;
    StatePlace place_;
    int start_;
};

}  // namespace outrider::cuda
