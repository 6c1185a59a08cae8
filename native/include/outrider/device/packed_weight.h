// PackedWeight: one matrix in the layout that a device's matrix product reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "outrider/device/format.h"

namespace outrider {

struct BlockType;

/// Host memory in a layout that only its device knows; null if the device has its own memory.
struct PackedBytes {
    void* data = nullptr;
    size_t size = 0;
};

/// Hides the storage format and the device's layout. A fused weight is one matrix whose parts are stored one
/// range of rows after another.
class PackedWeight {
  public:
    PackedWeight(WeightKind kind, int out_features, int in_features)
        : kind_(kind), out_features_(out_features), in_features_(in_features) {}
    virtual ~PackedWeight() = default;
    PackedWeight(const PackedWeight&) = delete;
    PackedWeight& operator=(const PackedWeight&) = delete;

    /// Packs `rows` output features from `first_row` on; `values` is host memory.  # [rows, in_features]
    /// Throws std::invalid_argument for a grouped weight.
    virtual void store(int first_row, int rows, const void* values, SourceType type) = 0;

    /// Packs rows of a grouped weight, whose numbers must be in stored_range; throws std::invalid_argument
    /// for any other weight.
    virtual void store_groups(int, int, const GroupedRows&) {
        throw std::invalid_argument("a weight without groups comes as values, not as numbers and scales");
    }

    /// Packs rows of quantised blocks: a grouped weight stores their numbers, any other weight their
    /// dequantised values. Throws std::invalid_argument if the type does not match the grouped weight's kind,
    /// or if its blocks do not fill the rows.  # [rows, type.row_bytes(in_features)]
    virtual void store_blocks(int first_row, int rows, const BlockType& type, const uint8_t* blocks);

    /// The packed bytes, to be saved, or to be filled with saved ones.
    virtual PackedBytes packed() { return {}; }

    WeightFormat format() const { return kind_.format; }
    const WeightKind& kind() const { return kind_; }
    int out_features() const { return out_features_; }
    int in_features() const { return in_features_; }
    /// The bytes that one product must read, without padding.
    int64_t bytes() const { return weight_bytes(kind_, out_features_, in_features_); }

  protected:
    void require_same_kind(const BlockType& type) const;

  private:
    WeightKind kind_;
    int out_features_;
    int in_features_;
};

}  // namespace outrider
