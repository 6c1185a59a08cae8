// SplitRow: a row of quantised blocks as grouped integers, and as dequantised values.
#include "outrider/device/block_type.h"
#include "source_values.h"

namespace outrider {
namespace {

template <typename T>
T* at(std::vector<T>& values, int64_t index) {
    return values.empty() ? nullptr : values.data() + index;
}

template <typename T>
const T* start(const std::vector<T>& values) {
    return values.empty() ? nullptr : values.data();
}

/// The scale (or offset) of each group: its block's unit times its step.
std::vector<float> of_groups(const std::vector<uint16_t>& units, const std::vector<int8_t>& steps) {
    std::vector<float> scales =
        to_float32(units.data(), SourceType::f16, 0, static_cast<int64_t>(units.size()));
    if (steps.empty()) {
        return scales;
    }
    std::vector<float> scaled(steps.size());
    const size_t groups_each = steps.size() / scales.size();
    for (size_t group = 0; group < steps.size(); ++group) {
        scaled[group] = scales[group / groups_each] * static_cast<float>(steps[group]);
    }
    return scaled;
}

}  // namespace

SplitRow::SplitRow(const BlockType& type, int64_t in_features, const uint8_t* row)
    : kind_(type.kind), numbers_(in_features), scales_(in_features / type.kind.groups.block) {
    const Grouping& groups = kind_.groups;
    offsets_.resize(groups.has_offsets ? scales_.size() : 0);
    steps_.resize(groups.has_steps() ? in_features / groups.size : 0);
    offset_steps_.resize(groups.has_offsets ? steps_.size() : 0);
    const int64_t groups_each = groups.block / groups.size;
    for (int64_t block = 0; block < static_cast<int64_t>(scales_.size()); ++block) {
        type.split(row + block * type.size,
                   {at(numbers_, block * groups.block), at(scales_, block), at(offsets_, block),
                    at(steps_, block * groups_each), at(offset_steps_, block * groups_each)});
    }
}

GroupedRows SplitRow::groups() const {
    return {start(numbers_), start(scales_), start(offsets_), start(steps_), start(offset_steps_)};
}

std::vector<float> SplitRow::values() const {
    const std::vector<float> scales = of_groups(scales_, steps_);
    const std::vector<float> offsets =
        kind_.groups.has_offsets ? of_groups(offsets_, offset_steps_) : std::vector<float>{};
    std::vector<float> result(numbers_.size());
    const int size = kind_.groups.size;
    for (size_t group = 0; group < scales.size(); ++group) {
        for (size_t k = group * size; k < (group + 1) * size; ++k) {
            result[k] = static_cast<float>(numbers_[k]) * scales[group];
        }
        for (size_t k = group * size; !offsets.empty() && k < (group + 1) * size; ++k) {
            result[k] += offsets[group];
        }
    }
    return result;
}

}  // namespace outrider
