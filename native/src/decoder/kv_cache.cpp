#include "outrider/decoder/kv_cache.h"

#include <stdexcept>
#include <string>

#include "outrider/decoder/limits.h"
#include "require_range.h"

namespace outrider {

KvCache::KvCache(const std::shared_ptr<Device>& device, const DecoderConfig& config, KvFormat format)
    : device_(device),
      format_(format),
      num_kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      block_bytes_(device->kv_block_bytes(format, config.num_kv_heads, config.head_dim)),
      layers_(config.num_layers) {}

void KvCache::allocate(int num_blocks) {
    require_range("num_blocks", num_blocks, 1, kMostBlocks);
    if (num_blocks_ > 0) {
        throw std::logic_error("the cache has blocks already");
    }
    for (DeviceBuffer<char>& layer : layers_) {
        layer = DeviceBuffer<char>(device_, num_blocks * block_bytes_);
    }
    num_blocks_ = num_blocks;
}

void KvCache::commit(int first_block, int num_blocks) {
    require_block(first_block);
    require_range("num_blocks", num_blocks, 1, num_blocks_ - first_block);
    for (const DeviceBuffer<char>& layer : layers_) {
        device_->commit(layer.data() + first_block * block_bytes_, num_blocks * block_bytes_);
    }
}

KvLayer KvCache::layer(int index) const {
    return {layers_[index].data(), format_, num_kv_heads_, head_dim_};
}

void KvCache::copy(int from, int to) {
    require_block(from);
    require_block(to);
    if (from == to) {
        return;  // memory must not be copied onto itself
    }
    for (const DeviceBuffer<char>& layer : layers_) {
        device_->copy(layer.data() + to * block_bytes_, layer.data() + from * block_bytes_, block_bytes_);
    }
}

void KvCache::read(int block, char* to) const {
    require_block(block);
    for (const DeviceBuffer<char>& layer : layers_) {
        device_->download(to, layer.data() + block * block_bytes_, block_bytes_);
        to += block_bytes_;
    }
}

void KvCache::write(int block, const char* from) {
    require_block(block);
    for (const DeviceBuffer<char>& layer : layers_) {
        device_->upload(layer.data() + block * block_bytes_, from, block_bytes_);
        from += block_bytes_;
    }
}

void KvCache::poison(int block) {
    require_block(block);
    constexpr uint8_t kNanByte = 0xFF;  // all ones are a NaN in every floating-point format
    for (const DeviceBuffer<char>& layer : layers_) {
        device_->fill(layer.data() + block * block_bytes_, kNanByte, block_bytes_);
    }
}

void KvCache::require_block(int block) const {
    require_range("block", block, 0, num_blocks_ - 1);
}

}  // namespace outrider
