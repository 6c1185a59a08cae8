// RankGroup: devices that hold a model together, and the memory through which they exchange columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/ranks/exchange.h"
#include "cuda/runtime/stream.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/device/rank_link.h"

namespace outrider::cuda {

/// A device of the group and its stream.
struct RankDevice {
    std::shared_ptr<Device> device;
    Stream* stream;
};

class RankGroup {
  public:
    /// Throws std::invalid_argument unless the devices are alike and can reach each other's memory.
    explicit RankGroup(std::vector<RankDevice> devices);

    /// Makes room for exchanges of so many bytes; returns how often the memory has moved.
    int reserve(size_t bytes);
    /// Exchanges as many rows at once as there is room for.
    void exchange(int rank, const ExchangeColumns& op) const;

  private:
    /// One rank's memory.
    struct Mailbox {
        DeviceBuffer<char> rows;
        DeviceBuffer<uint32_t> turns;
        DeviceBuffer<uint32_t> own_turns;
    };

    int blocks() const;
    Mailboxes boxes_of(int rank) const;

    std::vector<RankDevice> devices_;
    std::vector<Mailbox> mailboxes_;
    size_t half_bytes_ = 0;
    bool are_on_one_gpu_ = false;
    int moves_ = 0;
};

/// The links of all ranks, which share the group.
std::vector<std::unique_ptr<RankLink>> link_ranks(std::vector<RankDevice> devices);

}  // namespace outrider::cuda
