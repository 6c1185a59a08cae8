// ShardedDecoder: a decoder on one device, or divided among several, with the same bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "outrider/decoder/decoder.h"
#include "outrider/device/thread_pool.h"

namespace outrider {

/// Each device, a rank, has a decoder with its part of the matrices and of the KV heads, and computes its own outputs
/// from all inputs, so that no sum is divided. Logits are on the first device. What is not divided, as norms, short
/// convolutions and attention to latent vectors, every rank has and computes. Functions throw as those of Decoder do.
class ShardedDecoder {
  public:
    /// An attached drafter is on one device, the first of its target's. Throws std::invalid_argument, too, for a number of
    /// devices by which the model cannot be divided, and for devices that differ or cannot reach each other's memory.
    ShardedDecoder(const std::vector<std::shared_ptr<Device>>& devices, DecoderConfig config,
                   const WeightKinds& weights, KvFormat kv, const ShardedDecoder* target = nullptr);

    /// The decoder whose device has the logits.
    Decoder& first() { return *ranks_.front(); }
    const Decoder& first() const { return *ranks_.front(); }
    const std::vector<std::unique_ptr<Decoder>>& ranks() const { return ranks_; }
    /// The decoder of the only rank; throws std::invalid_argument if there are others.
    Decoder& only();
    /// Calls body(decoder) for one rank after another.
    template <typename Body>
    void each(const Body& body) {
        for (const auto& rank : ranks_) {
            body(*rank);
        }
    }

    /// Lets the devices record the usual pass shapes in advance; stops after `seconds`. Returns the number of recorded
    /// shapes.
    int record_passes(int max_rows, int max_blocks, double seconds);
    Pass forward(const Batch& batch);

    /// Adds the adapter to every rank, or to none; the number is the same on all.
    int add_adapter(float scale, const std::vector<AdapterUpdate>& updates);
    void remove_adapter(int number);

    /// The bytes of a block of all ranks, which follow each other in a page.
    size_t block_bytes() const;
    void read_block(int block, char* to) const;
    void write_block(int block, const char* from);
    /// The same for states. Throw std::runtime_error before these are allocated.
    size_t state_bytes() const;
    void read_state(int slot, char* to) const;
    void write_state(int slot, const char* from);
    void copy_state(int from, int to);

  private:
    /// Calls body(decoder) for all ranks at the same time, as their passes wait for one another. After an exception they
    /// may be out of step for good, so that later calls throw std::runtime_error.
    template <typename Body>
    void at_once(const Body& body) {
        require_in_step();
        are_in_step_ = ranks_.size() == 1;
        pool_.parallel_for(static_cast<int64_t>(ranks_.size()), [&](int64_t rank) { body(*ranks_[rank]); });
        are_in_step_ = true;
    }
    void require_in_step() const;
    /// While it is held, several ranks enqueue no pass, and allocate or free no adapter.
    std::unique_lock<std::mutex> hold();

    std::vector<std::unique_ptr<Decoder>> ranks_;
    ThreadPool pool_;
    bool are_in_step_ = true;
    std::mutex changing_;  // an allocation might wait for a rank that waits for one that is not enqueued yet
};

}  // namespace outrider
