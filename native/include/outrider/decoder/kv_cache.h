// KvCache: the paged keys and values of all layers, or, of those that convolve, their inputs.
#pragma once

#include <memory>
#include <vector>

#include "outrider/decoder/decoder_config.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"

namespace outrider {

class KvCache {
  public:
    /// Without blocks yet.
    KvCache(const std::shared_ptr<Device>& device, const DecoderConfig& config, KvFormat format);

    /// Throws std::invalid_argument when num_blocks < 1 or beyond the limit, std::logic_error where it has
    /// blocks already.
    void allocate(int num_blocks);
    /// Takes the memory of some blocks, which the system may have put off giving; passes may use the cache
    /// meanwhile. Throws std::invalid_argument for blocks that are not there.
    void commit(int first_block, int num_blocks);

    KvLayer layer(int index) const;
    /// Of a layer that convolves.
    ConvLayer conv_layer(int index) const;
    KvFormat format() const { return format_; }
    int num_blocks() const { return num_blocks_; }
    /// Of one block, what all layers have.
    size_t block_bytes() const { return block_bytes_; }
    /// Copies a block of every layer onto another. Throws as `poison`.
    void copy(int from, int to);
    /// Copies what a block holds of every layer, as it is stored, into `block_bytes` of the host's memory.
    /// Throws as `poison`.
    void read(int block, char* to) const;
    /// The inverse of `read`. Throws as `poison`.
    void write(int block, const char* from);
    /// Fills a block of every layer with NaN. Throws std::invalid_argument for a block that is not there.
    void poison(int block);

  private:
    /// The blocks of one layer.
    struct Layer {
        size_t block_bytes;
        DeviceBuffer<char> blocks = {};

        char* at(int block) const { return blocks.data() + block * block_bytes; }
    };

    void require_block(int block) const;

    std::shared_ptr<Device> device_;
    KvFormat format_;
    int num_kv_heads_;
    int head_dim_;
    int conv_width_;
    int num_blocks_ = 0;
    size_t block_bytes_ = 0;  // of all layers
    std::vector<Layer> layers_;
};

}  // namespace outrider
