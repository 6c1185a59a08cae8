// CUstream_st: the state of an emulated stream.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "emulation/tensor_core.h"

struct CUstream_st {
    using Work = std::function<void()>;

    /// Runs the work at once, or adds it to the recording.
    void enqueue(Work work) {
        if (is_recording) {
            recorded.push_back(std::move(work));
        } else {
            work();
        }
    }

    outrider::cuda::TensorCore tensor_core;  // computes the operations of a warp
    size_t used = 0;                         // bytes
    bool is_recording = false;
    std::vector<Work> recorded{};
};

namespace outrider::cuda {

// Counts over all emulated devices so far:

/// Replays of recordings.
int count_replays();
/// Uploads to a device.
int count_uploads();
/// Waits of the host for a device.
int count_waits();
/// Parts that have arrived at a counter; the last one merges or adds up all of them.
int count_arrivals();

void count_arrival();

/// Launches of each kernel with for_each_block, by the kernel's type.
std::map<std::string, int> count_launches();

void count_launch(const std::type_info& kernel);

}  // namespace outrider::cuda
