#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/reduce.cuh"
#include "cuda/sampling/kernels/advance.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {
namespace {

/// A block advances one row.
struct AdvanceRow {
    static constexpr int kThreads = 256;
    static constexpr int kBlocksPerMultiprocessor = 4;
    static constexpr int64_t kNowhere = -1;

    DrawBatch batch;
    Run run;
    int draw;

    __device__ void operator()(const Block& block) const {
        const RunRow& row = run.rows[block.index];
        const int32_t token_id = batch.drawn[block.index].token_id;
        const int64_t edit = age_edits(block, row, token_id);
        if (block.thread > 0) {
            return;
        }
        run.tokens[draw * run.num_rows + block.index] = token_id;
        const bool goes_on = draw + 1 < row.num_draws;
        if (row.num_draws > 1) {
            put_next(block.index, token_id, goes_on);
        }
        if (goes_on && row.counts_tokens && token_id != kNoToken) {
            count_token(batch.edits[edit != kNowhere ? edit : row.end_edit - 1 - draw], token_id);
        }
        ++batch.rows[block.index].position;
    }

    /// Counts down the edits' masks, and returns the index of the token's edit.
    __device__ int64_t age_edits(const Block& block, const RunRow& row, int32_t token_id) const {
        int64_t place = kNowhere;
        for (int64_t i = row.first_edit + block.thread; i < row.end_edit; i += kThreads) {
            Edit& edit = batch.edits[i];
            edit.masked -= edit.masked > 0 ? 1 : 0;
            place = edit.token_id == token_id ? i : place;
        }
        return reduce<kThreads>(block, place, Greater());
    }

    __device__ void put_next(int64_t row, int32_t token_id, bool goes_on) const {
        int32_t& position = run.next.positions[row];
        position = goes_on ? position + 1 : kInactive;
        run.next.token_ids[row] = token_id != kNoToken ? token_id : 0;
    }

    __device__ static void count_token(Edit& edit, int32_t token_id) {
        edit.token_id = token_id;
        edit.counted.seen = 1;
        edit.counted.generated += 1;
        edit.counted.present = 1;
    }
};

}  // namespace

void advance(const Stream& stream, const DrawBatch& batch, const Run& run, int draw) {
    for_each_block(stream, batch.num_rows, AdvanceRow::kThreads / kWarp * sizeof(int64_t),
                   AdvanceRow{batch, run, draw});
    stream.hold_next();  // attention reads positions before it waits for this kernel
}

}  // namespace outrider::cuda
