#include "cuda/primitives/launch.cuh"
#include "cuda/sampling/kernels/device_row.cuh"
#include "cuda/sampling/kernels/steps.h"
#include "sampling/steps/run_steps.h"

namespace outrider::cuda {
namespace {

/// A block runs the steps of one row.
struct RunSteps {
    static constexpr int kThreads = DeviceRow::kThreads;
    static constexpr int kBlocksPerMultiprocessor = 1;

    DrawBatch batch;

    __device__ void operator()(const Block& block) const {
        const DrawRow& params = batch.rows[block.index];
        if (!batch.is_drawn(block.index) || !params.numbers.steps.in_use) {
            return;
        }
        DeviceRow row(block, batch);
        outrider::run_steps(row, params.numbers, params.level);
        if (block.thread == 0) {
            DrawnRow& drawn = batch.drawn[block.index];
            drawn.distribution.maximum = row.maximum();
            drawn.status = status_of(drawn);
        }
    }
};

}  // namespace

void run_steps(const Stream& stream, const DrawBatch& batch) {
    for_each_block(stream, batch.num_rows, sizeof(DeviceRow::Shared), RunSteps{batch});
}

}  // namespace outrider::cuda
