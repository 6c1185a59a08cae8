#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/reduce.cuh"
#include "cuda/sampling/kernels/softmax.h"
#include "sampling/order_key.h"

namespace outrider::cuda {
namespace {

constexpr int64_t kLanesOfSum = 8;

/// A block finds the maximum of one block of values.
struct FindBlockMaximum {
    static constexpr int kThreads = kThreadsOfValues;
    static constexpr int kBlocksPerMultiprocessor = 16;

    DrawBatch batch;
    Stage stage;

    __device__ void operator()(const Block& block) const {
        const int64_t part = block.index % batch.num_blocks;
        const float* values = batch.values(stage, block.index / batch.num_blocks);
        int32_t greatest = order_key(-kInfinity);
        int32_t least = order_key(kInfinity);
        for (int64_t i = part * kSumBlock + block.thread; i < batch.block_end(part); i += kThreads) {
            const int32_t key = order_key(values[i]);
            greatest = Greater()(greatest, key);
            least = Less()(least, key);
        }
        greatest = reduce<kThreads>(block, greatest, Greater());
        least = reduce<kThreads>(block, least, Less());
        if (block.thread == 0) {
            batch.parts[block.index].greatest = greatest;
            batch.parts[block.index].least = least;
        }
    }
};

/// A block finds the maximum of one row.
struct FindMaximum {
    static constexpr int kThreads = kThreadsOfRow;
    static constexpr int kBlocksPerMultiprocessor = 4;

    DrawBatch batch;
    Stage stage;

    __device__ void operator()(const Block& block) const {
        const BlockPart* parts = batch.parts + block.index * batch.num_blocks;
        int32_t greatest = order_key(-kInfinity);
        int32_t least = order_key(kInfinity);
        for (int64_t part = block.thread; part < batch.num_blocks; part += kThreads) {
            greatest = Greater()(greatest, parts[part].greatest);
            least = Less()(least, parts[part].least);
        }
        greatest = reduce<kThreads>(block, greatest, Greater());
        least = reduce<kThreads>(block, least, Less());
        if (block.thread == 0) {
            const bool valid = greatest < order_key(kInfinity) && least >= order_key(-kInfinity);
            batch.of(stage, block.index).maximum = {value_of_key(greatest), valid};
        }
    }
};

/// Computes one of the interleaved sums of one block of values.
struct SumBlockLane {
    DrawBatch batch;
    Stage stage;

    __device__ void operator()(int64_t index) const {
        const int64_t lane = index % kLanesOfSum;
        const int64_t part = index / kLanesOfSum;
        const int64_t row = part / batch.num_blocks;
        const int64_t block = part % batch.num_blocks;
        const auto best = static_cast<double>(batch.of(stage, row).maximum.value);
        const float* values = batch.values(stage, row);
        double sum = 0.0;
        for (int64_t i = block * kSumBlock + lane; i < batch.block_end(block); i += kLanesOfSum) {
            sum += portable_exp(static_cast<double>(values[i]) - best);
        }
        batch.parts[part].sums[lane] = sum;
    }
};

/// A row's sum, by a warp: each thread adds up one of the interleaved sums (four threads the same one), then
/// these are added.
__device__ inline double sum_row(const Block& block, const DrawBatch& batch,
                                 double (BlockPart::*of_part)[kLanesOfSum]) {
    const BlockPart* parts = batch.parts + block.index * batch.num_blocks;
    double sum = 0.0;
#pragma unroll 16
    for (int64_t part = 0; part < batch.num_blocks; ++part) {
        sum += (parts[part].*of_part)[block.thread % kLanesOfSum];
    }
    for (int mask = kLanesOfSum / 2; mask > 0; mask /= 2) {
        sum += shuffle_xor(sum, mask);
    }
    return sum;
}

struct SumRow {
    static constexpr int kThreads = kWarp;
    static constexpr int kBlocksPerMultiprocessor = 1;

    DrawBatch batch;
    Stage stage;

    __device__ void operator()(const Block& block) const {
        const double sum = sum_row(block, batch, &BlockPart::sums);
        if (block.thread == 0) {
            batch.of(stage, block.index).sum = sum;
        }
    }
};

struct SumWeightedBlockLane {
    DrawBatch batch;

    __device__ void operator()(int64_t index) const {
        const int64_t lane = index % kLanesOfSum;
        const int64_t part = index / kLanesOfSum;
        const int64_t row = part / batch.num_blocks;
        const int64_t block = part % batch.num_blocks;
        const auto best = static_cast<double>(batch.drawn[row].raw.maximum.value);
        const float* values = batch.values(Stage::logits, row);
        double sum = 0.0;
        for (int64_t i = block * kSumBlock + lane; i < batch.block_end(block); i += kLanesOfSum) {
            sum += weighted_exp(static_cast<double>(values[i]) - best);
        }
        batch.parts[part].weighted_sums[lane] = sum;
    }
};

struct SumWeightedRow {
    static constexpr int kThreads = kWarp;
    static constexpr int kBlocksPerMultiprocessor = 1;

    DrawBatch batch;

    __device__ void operator()(const Block& block) const {
        const double sum = sum_row(block, batch, &BlockPart::weighted_sums);
        if (block.thread == 0) {
            batch.drawn[block.index].raw.weighted_sum = sum;
        }
    }
};

}  // namespace

void find_maxima(const Stream& stream, const DrawBatch& batch, Stage stage) {
    for_each_block(stream, batch.num_rows * batch.num_blocks, kThreadsOfValues / kWarp * sizeof(int32_t),
                   FindBlockMaximum{batch, stage});
    for_each_block(stream, batch.num_rows, kThreadsOfRow / kWarp * sizeof(int32_t),
                   FindMaximum{batch, stage});
}

void sum_exponentials(const Stream& stream, const DrawBatch& batch, Stage stage) {
    for_each(stream, batch.num_rows * batch.num_blocks * kLanesOfSum, SumBlockLane{batch, stage});
    for_each_block(stream, batch.num_rows, 0, SumRow{batch, stage});
}

void sum_weighted_exponentials(const Stream& stream, const DrawBatch& batch) {
    for_each(stream, batch.num_rows * batch.num_blocks * kLanesOfSum, SumWeightedBlockLane{batch});
    for_each_block(stream, batch.num_rows, 0, SumWeightedRow{batch});
}

}  // namespace outrider::cuda
