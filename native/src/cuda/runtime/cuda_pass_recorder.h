// CudaPassRecorder: records one decoder's passes, one recording per shape.
#pragma once

#include <functional>
#include <vector>

#include "cuda/runtime/recordings.h"
#include "cuda/runtime/stream.h"
#include "outrider/device/pass_recorder.h"

namespace outrider::cuda {

/// Passes over many rows are neither padded nor recorded: their operations take longer than enqueueing them
/// does.
class CudaPassRecorder final : public PassRecorder {
  public:
    explicit CudaPassRecorder(Stream& stream) : recordings_(stream) {}

    PassShape padded(const PassShape& shape) const override;
    void run(const PassShape& shape, const std::function<void()>& enqueue) override;
    std::vector<PassShape> usual(const PassShape& most) const override;
    void prepare(const PassShape& shape, const std::function<void()>& enqueue) override {
        recordings_.prepare(shape, enqueue);
    }
    void forget() override { recordings_.forget(); }

  private:
    Recordings<PassShape> recordings_;
};

}  // namespace outrider::cuda
