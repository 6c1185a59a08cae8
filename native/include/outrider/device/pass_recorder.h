// PassRecorder: runs one decoder's passes, which a device may record and replay as a whole.
#pragma once

#include <functional>
#include <tuple>
#include <vector>

namespace outrider {

/// The sizes that determine a pass's operations.
struct PassShape {
    int rows = 0;
    int logits = 0;
    int blocks = 0;  // columns of the block tables

    bool operator<(const PassShape& other) const {
        return std::tie(rows, logits, blocks) < std::tie(other.rows, other.logits, other.blocks);
    }
};

class PassRecorder {
  public:
    virtual ~PassRecorder() = default;

    /// The padded shape of a pass, which is shared by many shapes and no smaller than `shape`: padding rows
    /// are inactive (see RowPlaces).
    virtual PassShape padded(const PassShape& shape) const = 0;

    /// Runs a pass. `enqueue` only calls a device's operations, with the same arguments whenever the shape is
    /// the same; data that differs between passes must be in device memory.
    virtual void run(const PassShape& shape, const std::function<void()>& enqueue) = 0;

    /// The shapes up to `most` that decoding usually needs, the fewest rows first; empty if nothing is
    /// recorded.
    virtual std::vector<PassShape> usual(const PassShape& most) const = 0;

    /// Records a pass of this shape without running it. A pass over as many rows must have been run before.
    virtual void prepare(const PassShape& shape, const std::function<void()>& enqueue) = 0;

    /// Discards all recordings: memory that their operations use has moved.
    virtual void forget() = 0;
};

/// The recorder of devices on which enqueueing operations one by one costs nothing.
class UnrecordedPasses final : public PassRecorder {
  public:
    PassShape padded(const PassShape& shape) const override { return shape; }
    void run(const PassShape&, const std::function<void()>& enqueue) override { enqueue(); }
    std::vector<PassShape> usual(const PassShape&) const override { return {}; }
    void prepare(const PassShape&, const std::function<void()>&) override {}
    void forget() override {}
};

}  // namespace outrider
