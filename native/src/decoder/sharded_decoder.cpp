#include "outrider/decoder/sharded_decoder.h"

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

/// All ranks record the same shapes, since those that run first wait for each other.
int ShardedDecoder::record_passes(int max_rows, int max_blocks, double seconds) {
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
    for (const auto& rank : ranks_) {
        rank->place(batch, used_blocks(batch));
    }
    at_once([&](Decoder& rank) { rank.pass(batch.num_rows, batch.num_logits); });
    return first().results(batch.num_rows);
}

int ShardedDecoder::add_adapter(float scale, const std::vector<AdapterUpdate>& updates) {
    int number = 0;
    for (const auto& rank : ranks_) {
        number = rank->adapters().add(scale, updates);
    }
    return number;
}

size_t ShardedDecoder::block_bytes() const {
    return std::accumulate(ranks_.begin(), ranks_.end(), size_t{0},
                           [](size_t sum, const auto& rank) { return sum + rank->cache().block_bytes(); });
}

void ShardedDecoder::read_block(int block, char* to) const {
    for (const auto& rank : ranks_) {
        rank->cache().read(block, to);
        to += rank->cache().block_bytes();
    }
}

void ShardedDecoder::write_block(int block, const char* from) {
    for (const auto& rank : ranks_) {
        rank->cache().write(block, from);
        from += rank->cache().block_bytes();
    }
}

int64_t ShardedDecoder::weight_bytes() const {
    return std::accumulate(ranks_.begin(), ranks_.end(), int64_t{0},
                           [](int64_t sum, const auto& rank) { return sum + rank->weight_bytes(); });
}

int64_t ShardedDecoder::kv_bytes_per_token() const {
    return std::accumulate(ranks_.begin(), ranks_.end(), int64_t{0},
                           [](int64_t sum, const auto& rank) { return sum + rank->kv_bytes_per_token(); });
}

}  // namespace outrider
