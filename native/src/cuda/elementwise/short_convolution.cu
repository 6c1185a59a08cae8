#include <cmath>

#include "cuda/elementwise/short_convolution.h"
#include "cuda/primitives/launch.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {
namespace {

/// The index of one column of a position's stored input.
__device__ inline int64_t place_of(const ShortConvolution& op, int64_t row, int position, int64_t column) {
    const int64_t table = static_cast<int64_t>(op.places.sequences[row]) * op.places.max_blocks;
    const int64_t block = op.places.block_tables[table + position / kBlockSize];
    return (block * kBlockSize + position % kBlockSize) * op.cache.width + column;
}

struct StoreInput {
    ShortConvolution op;

    __device__ void operator()(int64_t index) const {
        const int64_t width = op.cache.width;
        const int64_t row = index / width;
        const int64_t column = index % width;
        const int position = op.places.positions[row];
        if (position != kInactive) {
            const float* projected = op.projected + row * 3 * width + column;
            store(op.cache.data, op.cache.format, place_of(op, row, position, column),
                  projected[0] * projected[2 * width]);
        }
    }
};

/// Computes one column of one row; all inputs must be stored.
struct Convolve {
    ShortConvolution op;

    __device__ void operator()(int64_t index) const {
        const int64_t width = op.cache.width;
        const int64_t row = index / width;
        const int64_t column = index % width;
        const int position = op.places.positions[row];
        if (position == kInactive) {
            return;
        }
        const int before = position - (op.num_taps - 1);
        float sum = op.bias ? op.bias[column] : 0.0f;
        for (int tap = before < 0 ? -before : 0; tap < op.num_taps; ++tap) {
            const float input = load(op.cache.data, op.cache.format, place_of(op, row, before + tap, column));
            sum = fmaf(op.taps[tap * width + column], input, sum);
        }
        const float gate = op.projected[(row * 3 + 1) * width + column];
        store(op.out.data, op.out.format, row * op.out.stride + column, gate * sum);
    }
};

}  // namespace

/// A row reads inputs that other rows of the pass store, so all rows store first.
void short_convolution(const Stream& stream, const ShortConvolution& op) {
    const int64_t count = int64_t{op.places.rows} * op.cache.width;
    for_each(stream, count, StoreInput{op});
    for_each(stream, count, Convolve{op});
}

}  // namespace outrider::cuda
