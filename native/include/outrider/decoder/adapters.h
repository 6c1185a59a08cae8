// LoRA adapters (arXiv 2106.09685): low-rank updates of a decoder's matrices, applied to the rows that
// request them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "outrider/decoder/batch.h"
#include "outrider/decoder/decoder_weights.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"

namespace outrider {

/// The values of a matrix, in host memory.
struct SourceMatrix {
    std::vector<int64_t> shape;
    const void* values;
    SourceType type;
};

/// The low-rank update of one weight, identified by the weight's canonical name.
struct AdapterUpdate {
    std::string name;
    SourceMatrix down;  // [rank, in_features], the A of arXiv 2106.09685
    SourceMatrix up;    // [out_features, rank], its B
};

/// An adapter in the layout of a device, still in host memory.
struct PreparedAdapter {
    /// The low-rank update of a range of a matrix's output columns.
    struct Update {
        const PackedWeight* matrix;
        LowRankWeight weight;
        std::vector<char> down;
        std::vector<char> up;
    };
    std::vector<Update> updates;
};

/// Adapters may be added and removed on any thread while another thread runs passes.
class Adapters {
  public:
    Adapters(std::shared_ptr<Device> device, DecoderWeights& weights, Format format)
        : device_(std::move(device)), weights_(weights), format_(format) {}

    /// Throws std::invalid_argument for a scale that is not finite, for a weight that adapters cannot change, and for
    /// shapes that do not match the weight.
    PreparedAdapter prepare(float scale, const std::vector<AdapterUpdate>& updates);

    /// Adds an adapter and returns its number; numbers of removed adapters are reused. Throws DeviceError, and adds
    /// nothing, if there is too little memory.
    int add(const PreparedAdapter& prepared);

    /// Removes an adapter; a pass that has selected it still applies it. Throws std::invalid_argument if
    /// there is no such adapter.
    void remove(int number);

    /// Selects the adapters of the batch's rows for the following passes. Throws std::invalid_argument if an
    /// adapter does not exist.
    void select(const Batch& batch);

    /// Keeps only those of the selected rows that are among the first `num_rows` of the pass.
    void narrow(int num_rows);

    /// Whether any selected row has an adapter.
    bool are_selected() const;

    /// Whether the adapter of any selected row changes the matrix.
    bool change(const PackedWeight& matrix) const;

    /// Adds the selected rows' low-rank updates of one matrix to its product, which begins at `out`.
    void apply(const Activations& input, const PackedWeight& matrix, float* out, int64_t out_stride);

  private:
    /// The low-rank update of a range of a matrix's output columns, in device memory.
    struct Update {
        DeviceBuffer<char> down;
        DeviceBuffer<char> up;
        LowRankWeight weight;
    };
    using Adapter = std::unordered_map<const PackedWeight*, std::vector<Update>>;

    /// The rows of a pass that share one adapter.
    struct Group {
        int number;
        std::shared_ptr<const Adapter> adapter;
        std::vector<int32_t> rows;
        const int32_t* device_rows;  // the same rows in device memory; narrow() does not shorten them
    };

    /// Throws std::invalid_argument if there is no such adapter.
    std::shared_ptr<const Adapter>& at(int number);

    PreparedAdapter::Update prepare(float scale, const AdapterUpdate& source, const MatrixRows& place) const;
    std::vector<char> rounded(const std::vector<float>& values) const;
    DeviceBuffer<char> upload(const std::vector<char>& bytes);
    void upload_rows();
    void reserve_inner();

    std::shared_ptr<Device> device_;
    DecoderWeights& weights_;
    Format format_;
    std::mutex changing_;
    std::vector<std::shared_ptr<const Adapter>> adapters_;  // null: the adapter was removed
    std::vector<Group> groups_;
    DeviceBuffer<int32_t> rows_;  // rows of all groups
    DeviceBuffer<float> inner_;   // intermediate values of all updates of one matrix
};

}  // namespace outrider
