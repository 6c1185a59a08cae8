#include "outrider/kv_cache.h"

#include <stdexcept>
#include <string>

namespace outrider {

KvCache::KvCache(const std::shared_ptr<Device>& device, const DecoderConfig& config, KvFormat format,
                 int num_blocks)
    : device_(device),
      format_(format),
      num_kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      num_blocks_(num_blocks),
      block_bytes_(device->kv_block_bytes(format, config.num_kv_heads, config.head_dim)) {
    if (num_blocks < 1) {
        throw std::invalid_argument("num_blocks is " + std::to_string(num_blocks) +
                                    "; it must be at least 1");
    }
    layers_.reserve(config.num_layers);
    for (int layer = 0; layer < config.num_layers; ++layer) {
        layers_.emplace_back(device, num_blocks * block_bytes_);
    }
}

KvLayer KvCache::layer(int index) const {
    return {layers_[index].data(), format_, num_kv_heads_, head_dim_};
}

void KvCache::poison(int block) {
    if (block < 0 || block >= num_blocks_) {
        throw std::invalid_argument("block is " + std::to_string(block) + "; it must be in 0 ... " +
                                    std::to_string(num_blocks_ - 1));
    }
    constexpr uint8_t kNanByte = 0xFF;  // all ones are a NaN in every floating-point format
    for (const DeviceBuffer<char>& layer : layers_) {
        device_->fill(layer.data() + block * block_bytes_, kNanByte, block_bytes_);
    }
}

}  // namespace outrider
