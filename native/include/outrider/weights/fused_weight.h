// FusedWeight: matrices that share one input and write neighbouring columns of one output.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "outrider/device/packed_weight.h"

namespace outrider {

/// Consists of one matrix per run of parts of the same kind that were added together.
class FusedWeight {
  public:
    /// A matrix, and the output column where its product begins.
    struct Part {
        std::unique_ptr<PackedWeight> matrix;
        int first_column;
    };

    PackedWeight& add(std::unique_ptr<PackedWeight> matrix) {
        parts_.push_back({std::move(matrix), out_features_});
        out_features_ += parts_.back().matrix->out_features();
        return *parts_.back().matrix;
    }

    const std::vector<Part>& parts() const { return parts_; }
    bool holds(const PackedWeight& matrix) const {
        return std::any_of(parts_.begin(), parts_.end(),
                           [&](const Part& part) { return part.matrix.get() == &matrix; });
    }
    int out_features() const { return out_features_; }
    int64_t bytes() const {
        int64_t total = 0;
        for (const Part& part : parts_) {
            total += part.matrix->bytes();
        }
        return total;
    }

  private:
    std::vector<Part> parts_;
    int out_features_ = 0;
};

}  // namespace outrider
