#include "outrider/decoder/sharded_decoder.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "require_range.h"

namespace outrider {
namespace {

int count_of(const std::vector<std::shared_ptr<Device>>& devices) {
    require_range("the number of devices", static_cast<int64_t>(devices.size()), 1, kMostRanks);
    return static_cast<int>(devices.size());
}

using Decoders = std::vector<std::unique_ptr<Decoder>>;
using MemoryOf = KvCache& (*)(Decoder& rank);

KvCache& cache_of(Decoder& rank) {
    return rank.cache();
}

KvCache& states_of(Decoder& rank) {
    if (!rank.states()) {
        throw std::runtime_error("there are no slots for states yet");
    }
    return *rank.states();
}

size_t page_bytes(const Decoders& ranks, MemoryOf memory) {
    return std::accumulate(ranks.begin(), ranks.end(), size_t{0},
                           [&](size_t sum, const auto& rank) { return sum + memory(*rank).block_bytes(); });
}

void read_page(const Decoders& ranks, MemoryOf memory, int block, char* to) {
    for (const auto& rank : ranks) {
        memory(*rank).read(block, to);
        to += memory(*rank).block_bytes();
    }
}

void write_page(const Decoders& ranks, MemoryOf memory, int block, const char* from) {
    for (const auto& rank : ranks) {
        memory(*rank).write(block, from);
        from += memory(*rank).block_bytes();
    }
}

}  // namespace

ShardedDecoder::ShardedDecoder(const std::vector<std::shared_ptr<Device>>& devices, DecoderConfig config,
                               const WeightKinds& weights, KvFormat kv, const ShardedDecoder* target)
    : pool_(count_of(devices)) {
    const int count = count_of(devices);
    const Decoder* const shared = target ? &target->first() : nullptr;
    if (count == 1) {
        ranks_.push_back(std::make_unique<Decoder>(devices.front(), std::move(config), weights, kv, shared));
        return;
    }
    config.validate_ranks(count);
    std::vector<std::unique_ptr<RankLink>> links = devices.front()->link(devices);
    for (int rank = 0; rank < count; ++rank) {
        config.rank = {rank, count};
        ranks_.push_back(
            std::make_unique<Decoder>(devices[rank], config, weights, kv, shared, std::move(links[rank])));
    }
}

Decoder& ShardedDecoder::only() {
    if (ranks_.size() > 1) {
        throw std::invalid_argument("a decoder that drafts must be on one device");
    }
    return first();
}

std::unique_lock<std::mutex> ShardedDecoder::hold() {
    return ranks_.size() > 1 ? std::unique_lock(changing_) : std::unique_lock<std::mutex>();
}

void ShardedDecoder::require_in_step() const {
    if (!are_in_step_) {
        throw std::runtime_error("a pass has failed on one of the devices that hold the model");
    }
}

/// All ranks record the same shapes, since those that run first wait for each other.
int ShardedDecoder::record_passes(int max_rows, int max_blocks, double seconds) {
    const std::unique_lock lock = hold();
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::vector<PassShape> shapes;
    for (const auto& rank : ranks_) {
        shapes = rank->begin_recording(max_rows, max_blocks);
    }
    int recorded = 0;
    for (const PassShape& shape : shapes) {
        if (std::chrono::steady_clock::now() >= end) {
            break;
        }
        at_once([&](Decoder& rank) { rank.record(shape); });
        ++recorded;
    }
    for (const auto& rank : ranks_) {
        rank->device()->synchronize();
    }
    return recorded;
}

/// Every rank has accepted the batch before any computes: one that did not would let the others wait for ever.
Pass ShardedDecoder::forward(const Batch& batch) {
    if (ranks_.size() == 1) {
        return first().forward(batch);
    }
    const std::unique_lock lock = hold();
    require_in_step();
    for (const auto& rank : ranks_) {
        rank->place(batch, used_blocks(batch));
    }
    at_once([&](Decoder& rank) { rank.pass(batch.num_rows, batch.num_logits); });
    return first().results(batch.num_rows);
}

int ShardedDecoder::add_adapter(float scale, const std::vector<AdapterUpdate>& updates) {
    std::vector<PreparedAdapter> prepared;  // while passes run
    each([&](Decoder& rank) { prepared.push_back(rank.adapters().prepare(scale, updates)); });
    const std::unique_lock lock = hold();
    int number = 0;
    for (auto rank = ranks_.begin(); rank != ranks_.end(); ++rank) {
        try {
            number = (*rank)->adapters().add(prepared[rank - ranks_.begin()]);
        } catch (...) {  // those before have it already
            std::for_each(ranks_.begin(), rank,
                          [&](const auto& before) { before->adapters().remove(number); });
            throw;
        }
    }
    return number;
}

void ShardedDecoder::remove_adapter(int number) {
    const std::unique_lock lock = hold();
    each([&](Decoder& rank) { rank.adapters().remove(number); });
}

size_t ShardedDecoder::block_bytes() const {
    return page_bytes(ranks_, cache_of);
}

void ShardedDecoder::read_block(int block, char* to) const {
    read_page(ranks_, cache_of, block, to);
}

void ShardedDecoder::write_block(int block, const char* from) {
    write_page(ranks_, cache_of, block, from);
}

size_t ShardedDecoder::state_bytes() const {
    return page_bytes(ranks_, states_of);
}

void ShardedDecoder::read_state(int slot, char* to) const {
    read_page(ranks_, states_of, slot, to);
}

void ShardedDecoder::write_state(int slot, const char* from) {
    write_page(ranks_, states_of, slot, from);
}

void ShardedDecoder::copy_state(int from, int to) {
    each([&](Decoder& rank) { states_of(rank).copy(from, to); });
}

}  // namespace outrider
