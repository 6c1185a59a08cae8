// KvCache: the paged memory of all layers: keys and values, or the inputs of short convolutions; a second one
// holds states, a slot in each block.
#pragma once

#include <memory>
#include <vector>

#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"

namespace outrider {

class KvCache {
  public:
    /// Creates a cache without blocks. `block_bytes` are those of each layer in one block.  # [layers]
    KvCache(std::shared_ptr<Device> device, const std::vector<size_t>& block_bytes);

    /// Throws std::invalid_argument when num_blocks < 1 or beyond the limit, std::logic_error if the cache
    /// has blocks already.
    void allocate(int num_blocks);
    /// Commits the memory of some blocks, which the operating system may have deferred; passes may use the
    /// cache meanwhile. Throws std::invalid_argument for blocks that do not exist.
    void commit(int first_block, int num_blocks);

    /// The blocks of a layer.
    void* blocks(int layer) const { return layers_[layer].blocks.data(); }
    int num_blocks() const { return num_blocks_; }
    /// The bytes of one block, over all layers.
    size_t block_bytes() const { return block_bytes_; }
    /// Copies a block of every layer to another block. Throws std::invalid_argument for a block that does not
    /// exist.
    void copy(int from, int to);
    /// Copies the stored contents of a block, of all layers, into `block_bytes` of host memory. Throws
    /// std::invalid_argument for a block that does not exist.
    void read(int block, char* to) const;
    /// Writes a block from the bytes that `read` has copied. Throws std::invalid_argument for a block that
    /// does not exist.
    void write(int block, const char* from);
    /// Fills a block of every layer with NaN. Throws std::invalid_argument for a block that does not exist.
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
    int num_blocks_ = 0;
    size_t block_bytes_ = 0;  // over all layers
    std::vector<Layer> layers_;
};

}  // namespace outrider
