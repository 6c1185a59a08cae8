#include "outrider/decoder/kv_cache.h"

#include <numeric>
#include <stdexcept>
#include <utility>

#include "outrider/decoder/limits.h"
#include "require_range.h"

namespace outrider {

KvCache::KvCache(std::shared_ptr<Device> device, const std::vector<size_t>& block_bytes)
    : device_(std::move(device)),
      block_bytes_(std::accumulate(block_bytes.begin(), block_bytes.end(), size_t{0})) {
    for (const size_t bytes : block_bytes) {
        layers_.push_back({bytes});
    }
}

void KvCache::allocate(int num_blocks) {
    require_range("num_blocks", num_blocks, 1, kMostBlocks);
    if (num_blocks_ > 0) {
        throw std::logic_error("the cache has blocks already");
    }
    for (Layer& layer : layers_) {
        layer.blocks = DeviceBuffer<char>(device_, num_blocks * layer.block_bytes);
    }
    num_blocks_ = num_blocks;
}

void KvCache::commit(int first_block, int num_blocks) {
    require_block(first_block);
    require_range("num_blocks", num_blocks, 1, num_blocks_ - first_block);
    for (const Layer& layer : layers_) {
        device_->commit(layer.at(first_block), num_blocks * layer.block_bytes);
    }
}

void KvCache::copy(int from, int to) {
    require_block(from);
    require_block(to);
    if (from == to) {
        return;  // source and destination must not overlap
    }
    for (const Layer& layer : layers_) {
        device_->copy(layer.at(to), layer.at(from), layer.block_bytes);
    }
}

void KvCache::read(int block, char* to) const {
    require_block(block);
    for (const Layer& layer : layers_) {
        device_->download(to, layer.at(block), layer.block_bytes);
        to += layer.block_bytes;
    }
}

void KvCache::write(int block, const char* from) {
    require_block(block);
    for (const Layer& layer : layers_) {
        device_->upload(layer.at(block), from, layer.block_bytes);
        from += layer.block_bytes;
    }
}

void KvCache::poison(int block) {
    require_block(block);
    constexpr uint8_t kNanByte = 0xFF;  // all ones are a NaN in every floating-point format
    for (const Layer& layer : layers_) {
        device_->fill(layer.at(block), kNanByte, layer.block_bytes);
    }
}

void KvCache::require_block(int block) const {
    require_range("block", block, 0, num_blocks_ - 1);
}

}  // namespace outrider
