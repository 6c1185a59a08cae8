// WeightBuilder: allocates a decoder's weights in the kinds that it holds them in, and registers where each is
// loaded to.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/device/rank_link.h"
#include "outrider/weights/fused_weight.h"
#include "outrider/weights/weight_slots.h"

namespace outrider {

/// The storage kinds of the matrices: `format` for all, except those listed in `own` by canonical name.
struct WeightKinds {
    WeightFormat format;
    std::unordered_map<std::string, WeightKind> own = {};
};

class WeightBuilder {
  public:
    WeightBuilder(std::shared_ptr<Device> device, const WeightKinds& kinds, WeightSlots& slots, Rank rank)
        : device_(std::move(device)), kinds_(kinds), slots_(slots), rank_(rank) {}

    /// The part of a weight of so many rows, or values, that the rank holds.
    NamedPart own(const std::string& name, int size) const {
        return {name, rank_.own(size), rank_.first(size), size};
    }
    const Rank& rank() const { return rank_; }

    /// Adds matrices that share their input.
    void add_fused(FusedWeight& weight, int in_features, const std::vector<NamedPart>& parts) {
        add_fused(weight, in_features, parts, kinds_.format);
    }
    /// Likewise; matrices without a kind of their own have this format.
    void add_fused(FusedWeight& weight, int in_features, const std::vector<NamedPart>& parts,
                   WeightFormat format);
    /// Adds a matrix with a row per token.
    std::unique_ptr<PackedWeight> add_table(const NamedPart& table, int in_features, WeightFormat format);
    /// Adds vectors that follow one another in one buffer, which may be longer; `factor` multiplies their
    /// values when they are loaded.
    void add_vectors(DeviceBuffer<float>& buffer, const std::vector<NamedPart>& parts, float factor = 1.0f);

    const std::shared_ptr<Device>& device() const { return device_; }
    /// The format in which the inputs of matrices are rounded.
    Format activation_format() const { return device_->activation_format(kinds_.format); }

  private:
    WeightKind kind_of(const std::string& name, WeightFormat format) const;

    std::shared_ptr<Device> device_;
    const WeightKinds& kinds_;
    WeightSlots& slots_;
    Rank rank_;
};

}  // namespace outrider
