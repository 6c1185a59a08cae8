// time_passes: measures how long a device takes for operations on data in its memory.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "outrider/device/device.h"
#include "outrider/device/pass_recorder.h"
#include "require_range.h"

namespace outrider {

constexpr int kMostTimed = 1000;

/// Returns the seconds of each of `runs` passes, recorded and replayed as a decoder's are. With runs = 0 the
/// pass is enqueued once, so that a profiler sees its kernels. Throws std::invalid_argument beyond
/// kMostTimed.
inline std::vector<double> time_passes(const std::shared_ptr<Device>& device, int runs,
                                       const std::function<void()>& enqueue) {
    require_range("runs", runs, 0, kMostTimed);
    const std::unique_ptr<PassRecorder> recorder = device->make_pass_recorder();
    const PassShape shape{1, 1, 1};
    const auto run = [&] {
        recorder->run(shape, enqueue);
        device->synchronize();
    };
    run();
    if (runs > 0) {
        run();
    }
    std::vector<double> seconds;
    for (int i = 0; i < runs; ++i) {
        const auto began = std::chrono::steady_clock::now();
        run();
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    }
    return seconds;
}

}  // namespace outrider
