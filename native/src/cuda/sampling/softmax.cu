#include "cuda/launch.cuh"
#include "cuda/reduce.cuh"
#include "cuda/sampling/softmax.h"
#include "sampling/order_key.h"

namespace outrider::cuda {
namespace {

constexpr int64_t kLanesOfSum = 8;
constexpr int kThreadsOfRow = 256;

struct FindBlockMaximum {
    DrawBatch batch;
    Stage stage;

    __device__ void operator()(int64_t index) const {
        const int64_t block = index % batch.num_blocks;
        const float* values = batch.values(stage, index / batch.num_blocks);
        int32_t greatest = order_key(-kInfinity);
        int32_t least = order_key(kInfinity);
        for (int64_t i = block * kSumBlock; i < batch.block_end(block); ++i) {
            const int32_t key = order_key(values[i]);
            greatest = key > greatest ? key : greatest;
            least = key < least ? key : least;
        }
        batch.parts[index].greatest = greatest;
        batch.parts[index].least = least;
    }
};

struct Less {
    __device__ int32_t operator()(int32_t left, int32_t right) const { return left < right ? left : right; }
};

/// A block has one row.
struct FindMaximum {
    static constexpr int kThreads = kThreadsOfRow;
    static constexpr int kBlocksAtOnce = 4;

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

/// One of the interleaved sums of one block.
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

__device__ inline double sum_row(const DrawBatch& batch, int64_t row,
                                 double (BlockPart::*of_part)[kLanesOfSum]) {
    const BlockPart* parts = batch.parts + row * batch.num_blocks;
    double sums[kLanesOfSum] = {};
    for (int64_t block = 0; block < batch.num_blocks; ++block) {
        for (int64_t lane = 0; lane < kLanesOfSum; ++lane) {
            sums[lane] += (parts[block].*of_part)[lane];
        }
    }
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

struct SumRow {
    DrawBatch batch;
    Stage stage;

    __device__ void operator()(int64_t row) const {
        batch.of(stage, row).sum = sum_row(batch, row, &BlockPart::sums);
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
    DrawBatch batch;

    __device__ void operator()(int64_t row) const {
        batch.drawn[row].raw.weighted_sum = sum_row(batch, row, &BlockPart::weighted_sums);
    }
};

}  // namespace

void find_maxima(const Stream& stream, const DrawBatch& batch, Stage stage) {
    for_each(stream, batch.num_rows * batch.num_blocks, FindBlockMaximum{batch, stage});
    for_each_block(stream, batch.num_rows, kThreadsOfRow / kWarp * sizeof(int32_t),
                   FindMaximum{batch, stage});
}

void sum_exponentials(const Stream& stream, const DrawBatch& batch, Stage stage) {
    for_each(stream, batch.num_rows * batch.num_blocks * kLanesOfSum, SumBlockLane{batch, stage});
    for_each(stream, batch.num_rows, SumRow{batch, stage});
}

void sum_weighted_exponentials(const Stream& stream, const DrawBatch& batch) {
    for_each(stream, batch.num_rows * batch.num_blocks * kLanesOfSum, SumWeightedBlockLane{batch});
    for_each(stream, batch.num_rows, SumWeightedRow{batch});
}

}  // namespace outrider::cuda
