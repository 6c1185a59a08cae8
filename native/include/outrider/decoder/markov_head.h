// MarkovHead: adds what the token before a row says to its logits, and estimates whether its draw is right (DSpark,
// deepseek-ai/DeepSpec).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "outrider/decoder/activation_buffer.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/decoder/short_head.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/weights/weight_builder.h"

namespace outrider {

/// Null if a drafter has none.
struct MarkovWeights {
    std::unique_ptr<PackedWeight> in;       // [vocab, rank], a table of the tokens before
    std::unique_ptr<PackedWeight> out;      // [rows of the lm_head, rank]
    FusedWeight confidence;                 // of a row's hidden vector and the vector of the token before
    DeviceBuffer<float> confidence_bias{};  // [1]

    void add(WeightBuilder& builder, const DecoderConfig& config, int head_rows, WeightFormat table,
             WeightFormat head);
};

class MarkovHead {
  public:
    /// `weights` must outlive it.
    MarkovHead(std::shared_ptr<Device> device, const MarkovWeights& weights, int hidden_size, Format format);

    /// Allocates memory for passes of so many rows, and to add to so many at a time; returns whether any buffer has
    /// moved.
    bool reserve(int rows, int rows_at_once);
    /// Restricts it to the logits of these tokens, as those of the lm_head are; of all if there are none.
    void shorten(const std::vector<int32_t>& token_ids);
    /// The number of bytes less that a pass reads since it was shortened, below 0.
    int64_t saved_bytes() const { return short_out_ ? out().bytes() - weights_.out->bytes() : 0; }

    /// Adds what each row's token, in device memory, says of the next one. Throws std::logic_error for another width.
    /// # token_ids: [rows], logits: [rows, width]
    void add(const int32_t* token_ids, int rows, float* logits, int width);
    /// The estimated probability that a target accepts each row's draw; there must be weights for it.
    /// # hidden: [rows, hidden_size], token_ids: [rows] before the draws
    std::vector<float> confidences(const Activations& hidden, const std::vector<int32_t>& token_ids);

  private:
    const PackedWeight& out() const { return short_out_ ? short_out_->matrix() : *weights_.out; }
    void embed(const int32_t* token_ids, int rows, const Activations& to);

    std::shared_ptr<Device> device_;
    const MarkovWeights& weights_;
    int hidden_size_;
    std::unique_ptr<ShortHead> short_out_;  // null: of all tokens
    DeviceBuffer<int32_t> indices_;         // [2, rows]: those of rows, and tokens
    DeviceBuffer<float> embedded_;          // [rows, rank]
    ActivationBuffer rounded_;              // [rows, rank]
    DeviceBuffer<float> bias_;              // [rows at once, width], or [rows] confidences
    ActivationBuffer both_;                 // [rows, hidden_size + rank]
};

}  // namespace outrider
