#include "cpu/cpu_weight.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "cpu/cpu_memory.h"
#include "outrider/device/block_type.h"
#include "source_values.h"

namespace outrider::cpu {
namespace {

/// Neighbouring rows share cache lines in every layout, so one thread packs this many of them.
constexpr int64_t kRowsPerTask = 16;

}  // namespace

CpuWeight::CpuWeight(const ProductKernel& kernel, ThreadPool& pool, const WeightKind& kind, int out_features,
                     int in_features)
    : PackedWeight(kind, out_features, in_features), kernel_(kernel), pool_(pool) {
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

/// Calls store_row(row) for rows 0 ... rows - 1, on all threads.
template <typename StoreRow>
void CpuWeight::for_each_row(int rows, const StoreRow& store_row) {
    pool_.parallel_for((rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task) {
        const int64_t end = std::min<int64_t>(rows, (task + 1) * kRowsPerTask);
        for (int64_t row = task * kRowsPerTask; row < end; ++row) {
            store_row(row);
        }
    });
}

void CpuWeight::store(int first_row, int rows, const void* values, SourceType type) {
    if (!kernel_.store_row) {
        throw std::invalid_argument("a grouped weight comes as numbers and scales, not as values");
    }
    for_each_row(rows, [&](int64_t row) {
        const std::vector<float> converted = to_float32(values, type, row * in_features(), in_features());
        kernel_.store_row(view_, first_row + row, converted.data());
    });
}

void CpuWeight::store_groups(int first_row, int rows, const GroupedRows& values) {
    if (!kernel_.store_groups) {
        PackedWeight::store_groups(first_row, rows, values);  // throws
    }
    for_each_row(rows, [&](int64_t row) {
        kernel_.store_groups(view_, first_row + row, values.from(row, in_features(), kind().groups));
    });
}

void CpuWeight::store_blocks(int first_row, int rows, const BlockType& type, const uint8_t* blocks) {
    require_same_kind(type);
    const int64_t row_bytes = type.row_bytes(in_features());
    for_each_row(rows, [&](int64_t row) {
        const SplitRow split(type, in_features(), blocks + row * row_bytes);
        if (kernel_.store_groups) {
            kernel_.store_groups(view_, first_row + row, split.groups());
        } else {
            kernel_.store_row(view_, first_row + row, split.values().data());
        }
    });
}

}  // namespace outrider::cpu
