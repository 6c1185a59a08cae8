#include "cuda/runtime/cuda_pass_recorder.h"

#include <algorithm>
#include <array>

namespace outrider::cuda {
namespace {

constexpr std::array<int, 9> kRecordedRows{1, 2, 4, 8, 16, 24, 32, 48, 64};

int padded_rows(int rows) {
    const auto* found = std::lower_bound(kRecordedRows.begin(), kRecordedRows.end(), rows);
    return found == kRecordedRows.end() ? rows : *found;
}

int power_of_two_from(int size) {
    int power = 1;
    while (power < size) {
        power *= 2;
    }
    return power;
}

bool is_recorded(const PassShape& shape) {
    return shape.rows <= kRecordedRows.back();
}

}  // namespace

PassShape CudaPassRecorder::padded(const PassShape& shape) const {
    if (!is_recorded(shape)) {
        return shape;
    }
    return {padded_rows(shape.rows), shape.logits > 0 ? padded_rows(shape.logits) : 0,
            power_of_two_from(shape.blocks)};
}

/// Passes with the logits of every row: decoding and verification. Others are recorded on demand.
std::vector<PassShape> CudaPassRecorder::usual(const PassShape& most) const {
    const int most_rows = std::min(padded_rows(std::min(most.rows, most.logits)), kRecordedRows.back());
    const int most_blocks = power_of_two_from(most.blocks);
    std::vector<PassShape> shapes;
    for (const int rows : kRecordedRows) {
        for (int blocks = 1; rows <= most_rows && blocks <= most_blocks; blocks *= 2) {
            shapes.push_back({rows, rows, blocks});
        }
    }
    return shapes;
}

void CudaPassRecorder::run(const PassShape& shape, const std::function<void()>& enqueue) {
    if (!is_recorded(shape)) {
        enqueue();
        return;
    }
    recordings_.run(shape, enqueue);
}

}  // namespace outrider::cuda
