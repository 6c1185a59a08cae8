// LoRA adapters (arXiv 2106.09685): low-rank changes of a decoder's matrices, for the rows that ask for one.
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

/// Values of a matrix in host memory.
struct SourceMatrix {
    std::vector<int64_t> shape;
    const void* values;
    SourceType type;
};

/// The change of one weight, under its canonical name.
struct AdapterUpdate {
    std::string name;
    SourceMatrix down;  // [rank, in_features], the A of arXiv 2106.09685
    SourceMatrix up;    // [out_features, rank], its B
};

/// Any thread may add and remove them beside the passes of another one.
class Adapters {
  public:
    Adapters(std::shared_ptr<Device> device, DecoderWeights& weights, Format format)
        : device_(std::move(device)), weights_(weights), format_(format) {}

    /// Takes one over and returns its number, which one that was removed may have had. Throws
    /// std::invalid_argument, and takes nothing, for a scale that is none, a weight that no adapter changes,
    /// and shapes that do not fit it.
    int add(float scale, const std::vector<AdapterUpdate>& updates);

    /// Forgets one; a pass that has selected it still computes it. Throws std::invalid_argument for one that
    /// is not there.
    void remove(int number);

    /// Notes which rows of the passes to come ask for which. Throws std::invalid_argument for one that is not
    /// there.
    void select(const Batch& batch);

    /// Leaves the first so many of these rows.
    void narrow(int num_rows);

    /// Whether a selected row asks for an adapter.
    bool are_selected() const;

    /// Whether an adapter of a selected row changes the matrix.
    bool change(const PackedWeight& matrix) const;

    /// Adds what the selected rows' adapters make of the input of one matrix, whose product begins at `out`.
    void apply(const Activations& input, const PackedWeight& matrix, float* out, int64_t out_stride);

  private:
    /// The change of some of a matrix's columns, in the device's memory.
    struct Update {
        DeviceBuffer<char> down;
        DeviceBuffer<char> up;
        LowRankWeight weight;
    };
    using Adapter = std::unordered_map<const PackedWeight*, std::vector<Update>>;

    /// The rows of a pass that ask for one adapter.
    struct Group {
        int number;
        std::shared_ptr<const Adapter> adapter;
        std::vector<int32_t> rows;
        const int32_t* device_rows;  // the same, and those that narrow() took
    };

    /// Throws std::invalid_argument.
    std::shared_ptr<const Adapter>& at(int number);

    Update upload(float scale, const AdapterUpdate& source, const MatrixRows& place);
    DeviceBuffer<char> upload(const std::vector<float>& values);
    void upload_rows();

    std::shared_ptr<Device> device_;
    DecoderWeights& weights_;
    Format format_;
    std::mutex changing_;
    std::vector<std::shared_ptr<const Adapter>> adapters_;  // none where one was removed
    std::vector<Group> groups_;
    DeviceBuffer<int32_t> rows_;  // of all groups
    DeviceBuffer<float> inner_;   // of all updates of one matrix
};

}  // namespace outrider
