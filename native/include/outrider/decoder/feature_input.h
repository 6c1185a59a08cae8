// FeatureInput: the input of an attached drafter beside its tokens (EAGLE-3, Li et al., arXiv 2503.01840; multi-token
// prediction, DeepSeek-V3, arXiv 2412.19437, section 2.2), or its context (DFlash, arXiv 2602.06036).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "outrider/decoder/activation_buffer.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/weights/weight_builder.h"

namespace outrider {

class Linear;

/// The weights before a drafter's first layer, and after its last one.
struct FeatureWeights {
    FusedWeight fc;            // of a row's features one after another, or of both its vectors
    FusedWeight carried;       // of the hidden vector for the next row, if it reads its target
    DeviceBuffer<float> norm;  // [count * width]; null if features are not normed
    DeviceBuffer<float>
        embedding_norm;  // [hidden]; null if it has none, or it is the first layer's attention_norm
    DeviceBuffer<float> hidden_norm;  // [hidden]; null if it has none
    DeviceBuffer<float> mask;         // [count * width], the features of a mask; null if masks have none

    void add(WeightBuilder& builder, const DecoderConfig& config);
};

/// Each row of a drafter has a token, and the hidden vector of the token before it: computed from the target's
/// features of that token, or carried over from the drafter's own pass over it. Both are normed and put side by side:
/// fc reads both and makes the residual, or the first layer reads both. With a context, no row has a hidden vector: those
/// of the target's rows, normed, are what the layers compute keys and values of.
class FeatureInput {
  public:
    /// `config` must outlive it, and has features.
    FeatureInput(std::shared_ptr<Device> device, const DecoderConfig& config, Format format);

    /// Allocates memory for so many rows; returns whether any buffer has moved. Hidden vectors of rows are
    /// kept, those of a context are not.
    bool reserve(int rows, Linear& linear);
    /// Computes the hidden vectors of some rows of the target's pass.  # features: [rows, count * width]
    void read(const FeatureWeights& weights, const float* features, const std::vector<int32_t>& rows,
              Linear& linear);
    /// Sets the hidden vectors of rows from `first_row` on to that of a mask; there must be memory for them.
    void add_masks(const FeatureWeights& weights, int first_row, int count, Linear& linear);
    /// Notes that the last pass has carried so many rows over.
    void note_carried(int num_rows) { num_rows_ = num_rows; }
    /// The number of hidden vectors.
    int num_rows() const { return num_rows_; }

    /// The vectors of the rows' tokens.  # [rows, vector]
    float* embedded() { return embedded_.data(); }
    /// Writes both vectors and the residual.  # residual: [rows, hidden]
    void begin(const FeatureWeights& weights, const float* embedding_norm, float* residual, int rows,
               Linear& linear);
    /// Both of a row's vectors, normed: the token's, then the hidden one.  # [rows, 2 * vector]
    /// With a context, the hidden one.  # [rows, hidden]
    Activations normed() const { return normed_.view(); }
    /// Keeps the residual of rows whose logits are requested as the hidden vectors of the rows after them.
    void carry(const FeatureWeights& weights, float* residual, const float* final_norm,
               const int32_t* logit_rows, int num_logits, Linear& linear);

  private:
    void normalise_features(const FeatureWeights& weights, float* features, int column, int width, int rows);
    void normalise(float* values, const float* norm, const Activations& out, int rows, int width);

    std::shared_ptr<Device> device_;
    const DecoderConfig& config_;
    int num_rows_ = 0;
    DeviceBuffer<int32_t> indices_;  // [rows], rows of the target's pass
    DeviceBuffer<float> gathered_;   // [rows, count * width]
    ActivationBuffer features_;      // [rows, count * width], the input of fc unless it reads both
    ActivationBuffer projected_;     // [rows, hidden], the input of the weight `carried`
    DeviceBuffer<float> embedded_;   // [rows, vector]
    DeviceBuffer<float> hidden_;     // [rows, vector]
    DeviceBuffer<float> carried_;    // [rows, hidden], before they are normed
    DeviceBuffer<float> mask_;       // [hidden], the hidden vector of a mask
    bool has_mask_ = false;          // it is computed
    ActivationBuffer normed_;        // [rows, 2 * vector], or [rows, hidden] with a context
};

}  // namespace outrider
