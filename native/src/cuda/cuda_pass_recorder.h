// CudaPassRecorder: the passes of one decoder as recordings, one for each shape.
#pragma once

#include <map>
#include <memory>

#include "cuda/stream.h"
#include "outrider/pass_recorder.h"

namespace outrider::cuda {

/// A shape's first pass is run as it is enqueued, so that all that is done once is done; its second is
/// recorded. Passes over many rows are never padded, nor recorded: their operations take longer than
/// enqueueing them.
class CudaPassRecorder final : public PassRecorder {
  public:
    explicit CudaPassRecorder(Stream& stream) : stream_(stream) {}

    PassShape padded(const PassShape& shape) const override;
    void run(const PassShape& shape, const std::function<void()>& enqueue) override;
    void forget() override { recordings_.clear(); }

  private:
    void record(const std::function<void()>& enqueue, std::unique_ptr<Recording>& recording);

    Stream& stream_;
    std::map<PassShape, std::unique_ptr<Recording>> recordings_;  // null where a shape has been run once
};

}  // namespace outrider::cuda
