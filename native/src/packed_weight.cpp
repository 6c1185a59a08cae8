#include "outrider/device/packed_weight.h"

#include <algorithm>
#include <vector>

#include "outrider/device/block_type.h"

namespace outrider {

void PackedWeight::require_same_kind(const BlockType& type) const {
    if (kind_.groups.size > 0 && !(type.kind == kind_)) {
        throw std::invalid_argument(std::string("blocks of ") + type.name +
                                    " are of another kind than this grouped weight");
    }
}

void PackedWeight::store_blocks(int first_row, int rows, const BlockType& type, const uint8_t* blocks) {
    require_same_kind(type);
    const int64_t row_bytes = type.row_bytes(in_features_);
    std::vector<float> values(static_cast<size_t>(rows) * in_features_);
    for (int64_t row = 0; row < rows; ++row) {
        const std::vector<float> one = SplitRow(type, in_features_, blocks + row * row_bytes).values();
        std::copy(one.begin(), one.end(), values.begin() + row * in_features_);
    }
    store(first_row, rows, values.data(), SourceType::f32);
}

}  // namespace outrider
