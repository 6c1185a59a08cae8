// DecoderWeights: the decoder's weights, fused and packed, found by their canonical names.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "outrider/decoder/decoder_config.h"
#include "outrider/decoder/fused_weight.h"
#include "outrider/device/block_type.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"

namespace outrider {

/// What one layer has; the pointers to what its architecture lacks are null.
struct LayerWeights {
    DeviceBuffer<float> attention_norm;
    DeviceBuffer<float> q_norm;
    DeviceBuffer<float> k_norm;
    DeviceBuffer<float> post_attention_norm;
    DeviceBuffer<float> mlp_norm;
    DeviceBuffer<float> post_mlp_norm;
    DeviceBuffer<float> qkv_bias;
    DeviceBuffer<float> output_bias;
    DeviceBuffer<float> gate_up_bias;
    DeviceBuffer<float> down_bias;
    FusedWeight qkv;
    FusedWeight output;
    FusedWeight gate_up;
    FusedWeight down;
};

/// What matrices are held as: all of a format, but for those that have a kind of their own by their canonical
/// names.
struct WeightKinds {
    WeightFormat format;
    std::unordered_map<std::string, WeightKind> own = {};
};

class DecoderWeights {
  public:
    /// Throws std::invalid_argument for a kind under a name that is no matrix of the configuration, or that
    /// the device does not hold.
    DecoderWeights(const std::shared_ptr<Device>& device, const DecoderConfig& config, WeightKinds kinds);
    DecoderWeights(const DecoderWeights&) = delete;
    DecoderWeights& operator=(const DecoderWeights&) = delete;

    /// Packs one weight; `values` is host memory of that shape. Throws std::invalid_argument for an unknown
    /// name or another shape than the configuration's.
    void load(const std::string& name, const std::vector<int64_t>& shape, const void* values,
              SourceType type);

    /// Packs a part of one weight, so that its source need not be in memory all at once; parts come in order,
    /// and first_row 0 begins anew.
    void load_rows(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape,
                   const void* values, SourceType type);

    /// The same of rows of blocks.  # shape: [rows, bytes of a row]
    void load_blocks(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape,
                     const BlockType& type, const uint8_t* blocks);

    /// The memory of all weights in the order of the pass, a fused one's under the name of its first part.
    /// Throws std::invalid_argument where the device holds them in memory of its own.
    std::vector<std::pair<std::string, PackedBytes>> packed();
    /// Says that all of `packed` has been filled.
    void mark_loaded();

    /// Canonical names not loaded yet, in the order of the pass.
    std::vector<std::string> missing() const;
    /// Bytes of weights that one pass must read.
    int64_t bytes() const;

    const PackedWeight& embedding() const { return *embedding_; }
    const PackedWeight& lm_head() const { return lm_head_ ? *lm_head_ : *embedding_; }
    const float* final_norm() const { return final_norm_.data(); }
    const LayerWeights& layer(int index) const { return layers_[index]; }

  private:
    /// Where a weight goes: rows of a packed matrix, or part of a float32 vector.
    struct Slot {
        std::string name;
        std::vector<int64_t> shape;
        PackedWeight* matrix = nullptr;
        int first_row = 0;
        float* vector = nullptr;
        int64_t loaded_rows = 0;
        float factor = 1.0f;  // on the values of a vector
    };

    /// A part of a matrix.
    struct Rows {
        std::string name;
        int count;
    };

    void add_layer(const DecoderConfig& config, int index);
    void add_attention(const DecoderConfig& config, LayerWeights& layer, const std::string& prefix);
    void add_mlp(const DecoderConfig& config, LayerWeights& layer, const std::string& prefix);
    void add_own_vector(const std::string& name, DeviceBuffer<float>& buffer, int size);
    void add_part(const std::string& name, PackedWeight& matrix, int first_row, int rows);
    void add_fused(FusedWeight& weight, int in_features, const std::vector<Rows>& parts);
    std::unique_ptr<PackedWeight> add_table(const std::string& name, WeightFormat format,
                                            const DecoderConfig& config);
    void add_vector(const std::string& name, float* to, int size);
    WeightKind kind_of(const std::string& name, WeightFormat format) const;
    Slot& find(const std::string& name);
    Slot& find_matrix(const std::string& name);
    Slot& find_next(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape);
    void store(Slot& slot, int64_t first_row, int64_t rows, const void* values, SourceType type);

    std::shared_ptr<Device> device_;
    WeightKinds kinds_;
    std::unique_ptr<PackedWeight> embedding_;
    std::unique_ptr<PackedWeight> lm_head_;
    DeviceBuffer<float> final_norm_;
    std::vector<LayerWeights> layers_;
    std::vector<Slot> slots_;
    std::unordered_map<std::string, size_t> slot_of_name_;
};

}  // namespace outrider
