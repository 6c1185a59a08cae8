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

    /// Does it at once, or keeps it for a recording.
    void enqueue(Work work) {
        if (is_recording) {
            recorded.push_back(std::move(work));
        } else {
            work();
        }
    }

    outrider::cuda::TensorCore tensor_core;  // what an operation of a warp computes
    size_t used = 0;                         // bytes
    bool is_recording = false;
    std::vector<Work> recorded{};
};

namespace outrider::cuda {

// On all emulated devices, so far:

/// Recordings that have been replayed.
int count_replays();
/// Copies to a device.
int count_uploads();
/// Times that the host has waited for a device.
int count_waits();
/// Parts of attentions that were counted, to be merged by the last of them.
int count_arrivals();

void count_arrival();

/// Launches of each kernel of blocks, by its type.
std::map<std::string, int> count_launches();

void count_launch(const std::type_info& kernel);

}  // namespace outrider::cuda
