// PassRecorder: passes of one decoder, which a device may record and run again as one.
#pragma once

#include <functional>
#include <tuple>
#include <vector>

namespace outrider {

/// The sizes of a pass that its operations are enqueued with.
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

    /// The shape that a pass of this one is to have, no smaller and the same for many: the rows beyond the
    /// pass's own are inactive (see RowPlaces).
    virtual PassShape padded(const PassShape& shape) const = 0;

    /// Enqueues a pass. `enqueue` does nothing but call a device's operations, the same ones with the same
    /// arguments whenever the shape is the same: what differs between passes lies in the device's memory.
    virtual void run(const PassShape& shape, const std::function<void()>& enqueue) = 0;

    /// Shapes no larger than this one that passes of sequences under way are given, the fewest rows first;
    /// none where nothing is recorded.
    virtual std::vector<PassShape> usual(const PassShape& most) const = 0;

    /// Records a pass of such a shape, which is not run. One of as many rows must have been run.
    virtual void prepare(const PassShape& shape, const std::function<void()>& enqueue) = 0;

    /// Memory that the operations were given is there no longer.
    virtual void forget() = 0;
};

/// Recorder of devices on which enqueueing operations one by one costs nothing.
class UnrecordedPasses final : public PassRecorder {
  public:
    PassShape padded(const PassShape& shape) const override { return shape; }
    void run(const PassShape&, const std::function<void()>& enqueue) override { enqueue(); }
    std::vector<PassShape> usual(const PassShape&) const override { return {}; }
    void prepare(const PassShape&, const std::function<void()>&) override {}
    void forget() override {}
};

}  // namespace outrider
