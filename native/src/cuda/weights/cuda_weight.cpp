#include "cuda/weights/cuda_weight.h"

#include <algorithm>

#include "cuda/runtime/memory.h"
#include "cuda/weights/pack.h"

namespace outrider::cuda {
namespace {

constexpr int64_t kStagedBytes = int64_t{1} << 26;  // of a checkpoint, to be uploaded and packed at once

}  // namespace

CudaWeight::CudaWeight(Stream& stream, WeightFormat format, int out_features, int in_features)
    : PackedWeight({format}, out_features, in_features),
      tiles_(stream),
      scales_(stream),
      view_{nullptr, nullptr, format, out_features, in_features},
      stream_(stream) {
    view_.data = tiles_.reserve(packed_bytes(view_));
    if (has_feature_scales(format)) {
        view_.scales = scales_.reserve(out_features);
    }
}

void CudaWeight::store(int first_row, int rows, const void* values, SourceType type) {
    const int64_t row_bytes = in_features() * static_cast<int64_t>(size_of(type));
    const int64_t rows_at_once = std::clamp<int64_t>(kStagedBytes / row_bytes, 1, std::max(rows, 1));
    Memory<char> staging(stream_);
    for (int64_t first = 0; first < rows; first += rows_at_once) {
        const int64_t count = std::min<int64_t>(rows_at_once, rows - first);
        char* const staged = staging.reserve(rows_at_once * row_bytes);
        stream_.upload(staged, static_cast<const char*>(values) + first * row_bytes, count * row_bytes);
        pack(stream_, staged, type, count, view_, first_row + first);
    }
}

}  // namespace outrider::cuda
