// Workspace: the buffers of one pass, reused from pass to pass.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "outrider/batch.h"
#include "outrider/decoder_config.h"
#include "outrider/device.h"
#include "outrider/device_buffer.h"

namespace outrider {

/// Rows of activations, zero from their width to their stride.
class ActivationBuffer {
  public:
    ActivationBuffer(Format format, int width)
        : format_(format),
          stride_((width + kActivationAlignment - 1) / kActivationAlignment * kActivationAlignment) {}

    void reserve(const std::shared_ptr<Device>& device, int rows) {
        bytes_.reserve(device, rows * stride_ * size_of(format_));
    }
    Activations view() const { return {bytes_.data(), format_, stride_}; }

  private:
    Format format_;
    int64_t stride_;
    DeviceBuffer<char> bytes_;
};

/// A batch's arrays in the device's memory.
class DeviceRows {
  public:
    void upload(const std::shared_ptr<Device>& device, const Batch& batch);

    const int32_t* token_ids() const { return token_ids_.data(); }
    const int32_t* logit_rows() const { return logit_rows_.data(); }
    const RowPlaces& places() const { return places_; }

  private:
    void gather_tables(const Batch& batch);

    DeviceBuffer<int32_t> token_ids_;
    DeviceBuffer<int32_t> positions_;
    DeviceBuffer<int32_t> sequences_;
    DeviceBuffer<int32_t> logit_rows_;
    DeviceBuffer<int32_t> block_tables_;
    std::vector<int32_t> tables_;  // the used columns of the batch's block tables
    RowPlaces places_;
};

struct Workspace {
    Workspace(const DecoderConfig& config, Format format);

    /// Makes room for a batch.
    void reserve(const std::shared_ptr<Device>& device, const DecoderConfig& config, int num_rows,
                 int num_logits);

    DeviceRows rows;
    DeviceBuffer<float> residual;                 // [rows, hidden]
    DeviceBuffer<float> delta;                    // [rows, hidden], what a sublayer adds to the residual
    DeviceBuffer<float> qkv;                      // [rows, qkv]
    DeviceBuffer<float> gate_up;                  // [rows, 2 * intermediate]
    std::vector<DeviceBuffer<float>> angles;      // for each rotary table: [rows, 2, half_dim]
    ActivationBuffer normed;                      // [rows, hidden]
    ActivationBuffer attended;                    // [rows, q]
    ActivationBuffer gated;                       // [rows, intermediate]
    ActivationBuffer asked;                       // [logits, hidden]
    std::shared_ptr<DeviceBuffer<float>> logits;  // [logits, vocab]
};

}  // namespace outrider
