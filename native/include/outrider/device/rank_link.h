// RankLink: what one of several devices that hold a model together, a rank, has of the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "outrider/device/host_device.h"

namespace outrider {

constexpr int kMostRanks = 8;

/// A rank's place among all. Each computes a range of the outputs of a divided matrix, as one device alone would.
struct Rank {
    int index = 0;
    int count = 1;

    /// The first of its outputs, of `size` in all.
    OUTRIDER_HOST_DEVICE constexpr int first(int size) const {
        return static_cast<int>(int64_t{size} * index / count);
    }
    /// The number of its outputs.
    OUTRIDER_HOST_DEVICE constexpr int own(int size) const {
        return static_cast<int>(int64_t{size} * (index + 1) / count) - first(size);
    }
};

/// Rows with columns of all ranks, where each has computed its own; afterwards it has all of them.
struct ExchangeColumns {
    void* data = nullptr;    // [rows, stride]
    size_t value_bytes = 0;  // of one value: 2 or 4
    int64_t stride = 0;      // values
    int width = 0;           // columns of all ranks
    int rows = 0;
    bool only_first = false;  // only the first rank needs those of the others

    size_t row_bytes() const { return static_cast<size_t>(width) * value_bytes; }
};

/// All ranks enqueue the same exchanges in the same order. Each waits on its device for the others, not on the host.
class RankLink {
  public:
    virtual ~RankLink() = default;

    /// Makes room for exchanges of rows of so many bytes together, on all ranks; more rows are exchanged one part after
    /// another. All ranks must have enqueued the same passes. Returns whether the memory has moved since this rank's
    /// last call.
    virtual bool reserve(size_t bytes) = 0;
    /// Throws std::invalid_argument unless the ranks' ranges begin at multiples of four bytes, std::logic_error if there
    /// is no room for a row.
    virtual void exchange(const ExchangeColumns& op) = 0;
};

}  // namespace outrider
