#include "cpu/cpu_weight.h"

#include <vector>

#include "cpu/cpu_memory.h"
#include "source_values.h"

namespace outrider::cpu {

CpuWeight::CpuWeight(const ProductKernel& kernel, ThreadPool& pool, WeightFormat format, int out_features,
                     int in_features)
    : PackedWeight(format, out_features, in_features), kernel_(kernel), pool_(pool) {
    view_ = {allocate(panels() * kernel.panel_bytes(in_features)), out_features, in_features};
}

CpuWeight::~CpuWeight() {
    release(view_.data);
}

void CpuWeight::store(int first_row, int rows, const void* values, SourceType type) {
    pool_.parallel_for(rows, [&](int64_t row) {
        const std::vector<float> converted = to_float32(values, type, row * in_features(), in_features());
        kernel_.store_row(view_, first_row + row, converted.data());
    });
}

}  // namespace outrider::cpu
