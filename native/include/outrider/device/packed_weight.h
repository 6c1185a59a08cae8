// PackedWeight: one matrix in the order in which a device's matrix product reads it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "outrider/device/format.h"

namespace outrider {

/// Memory of the host, in a layout that only its device knows; null where the device has memory of its own.
struct PackedBytes {
    void* data = nullptr;
    size_t size = 0;
};

/// Hides the storage format and the device's layout. A fused weight is one matrix whose parts are stored
/// row range by row range.
class PackedWeight {
  public:
    PackedWeight(WeightFormat format, int out_features, int in_features)
        : format_(format), out_features_(out_features), in_features_(in_features) {}
    virtual ~PackedWeight() = default;
    PackedWeight(const PackedWeight&) = delete;
    PackedWeight& operator=(const PackedWeight&) = delete;

    /// Packs `rows` output features from `first_row` on; `values` is host memory.  # [rows, in_features]
    virtual void store(int first_row, int rows, const void* values, SourceType type) = 0;

    /// What `store` has written, to be kept, or filled with what was kept.
    virtual PackedBytes packed() { return {}; }

    WeightFormat format() const { return format_; }
    int out_features() const { return out_features_; }
    int in_features() const { return in_features_; }
    /// Bytes that one product must read, without padding.
    int64_t bytes() const { return weight_bytes(format_, out_features_, in_features_); }

  private:
    WeightFormat format_;
    int out_features_;
    int in_features_;
};

}  // namespace outrider
