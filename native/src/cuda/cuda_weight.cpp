#include "cuda/cuda_weight.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "cuda/memory.h"
#include "cuda/transpose.h"
#include "source_values.h"

namespace outrider::cuda {
namespace {

constexpr int64_t kStagedValues = int64_t{1} << 24;  // 64 MiB of float32 on their way to their places

Format plain(WeightFormat format) {
    if (format != WeightFormat::f32 && format != WeightFormat::bf16) {
        throw std::invalid_argument("weights: a CUDA device holds them as \"bf16\" or \"f32\" only");
    }
    return format == WeightFormat::f32 ? Format::f32 : Format::bf16;
}

}  // namespace

CudaWeight::CudaWeight(Stream& stream, WeightFormat format, int out_features, int in_features)
    : PackedWeight(format, out_features, in_features),
      stream_(stream),
      view_{nullptr, plain(format), out_features, in_features} {
    view_.data = stream.allocate(bytes());
}

CudaWeight::~CudaWeight() {
    stream_.release(view_.data);
}

void CudaWeight::store(int first_row, int rows, const void* values, SourceType type) {
    const int64_t rows_at_once = std::clamp<int64_t>(kStagedValues / in_features(), 1, std::max(rows, 1));
    Memory<float> staging(stream_);
    for (int64_t first = 0; first < rows; first += rows_at_once) {
        const int64_t count = std::min<int64_t>(rows_at_once, rows - first);
        const std::vector<float> converted =
            to_float32(values, type, first * in_features(), count * in_features());
        transpose(stream_, staging.upload(converted), count, view_, first_row + first);
    }
}

}  // namespace outrider::cuda
