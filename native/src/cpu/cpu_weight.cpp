#include "cpu/cpu_weight.h"

#include <algorithm>
#include <vector>

#include "cpu/cpu_memory.h"
#include "source_values.h"

namespace outrider::cpu {
namespace {

/// Neighbouring rows share cache lines in every layout: one thread packs as many as fill one.
constexpr int64_t kRowsPerTask = 16;

}  // namespace

CpuWeight::CpuWeight(const ProductKernel& kernel, ThreadPool& pool, WeightFormat format, int out_features,
                     int in_features)
    : PackedWeight(format, out_features, in_features), kernel_(kernel), pool_(pool) {
    view_ = {allocate(packed_size()), out_features, in_features};
}

size_t CpuWeight::packed_size() const {
    return panels() * kernel_.panel_bytes(in_features());
}

PackedBytes CpuWeight::packed() {
    return {view_.data, packed_size()};
}

CpuWeight::~CpuWeight() {
    release(view_.data);
}

void CpuWeight::store(int first_row, int rows, const void* values, SourceType type) {
    pool_.parallel_for((rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task) {
        const int64_t end = std::min<int64_t>(rows, (task + 1) * kRowsPerTask);
        for (int64_t row = task * kRowsPerTask; row < end; ++row) {
            const std::vector<float> converted = to_float32(values, type, row * in_features(), in_features());
            kernel_.store_row(view_, first_row + row, converted.data());
        }
    });
}

}  // namespace outrider::cpu
