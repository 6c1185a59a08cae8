// Ranks: the part of a decoder that its device has, and the exchange of columns with the devices that have the rest.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "outrider/device/operations.h"
#include "outrider/device/rank_link.h"

namespace outrider {

class Ranks {
  public:
    /// `link` is null for a decoder on one device, whose exchanges do nothing.
    Ranks(Rank own, std::unique_ptr<RankLink> link) : own_(own), link_(std::move(link)) {}

    const Rank& own() const { return own_; }
    /// Makes room for exchanges of so many bytes; returns whether memory has moved.
    bool reserve(size_t bytes) { return link_ && link_->reserve(bytes); }

    /// Completes rows whose own columns are there.
    void exchange(const Activations& all, int width, int rows) {
        exchange({.data = all.data,
                  .value_bytes = size_of(all.format),
                  .stride = all.stride,
                  .width = width,
                  .rows = rows});
    }
    /// The same for [rows, width] in float32.
    void exchange(float* all, int width, int rows, bool only_first = false) {
        exchange({.data = all,
                  .value_bytes = sizeof(float),
                  .stride = width,
                  .width = width,
                  .rows = rows,
                  .only_first = only_first});
    }

  private:
    void exchange(const ExchangeColumns& op) {
        if (link_) {
            link_->exchange(op);
        }
    }

    Rank own_;
    std::unique_ptr<RankLink> link_;
};

}  // namespace outrider
