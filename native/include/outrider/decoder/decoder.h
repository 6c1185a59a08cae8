// Decoder: the transformer with its weights and its paged KV cache.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "outrider/decoder/adapters.h"
#include "outrider/decoder/batch.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/decoder/decoder_weights.h"
#include "outrider/decoder/expert_mlp.h"
#include "outrider/decoder/kv_cache.h"
#include "outrider/decoder/logits.h"
#include "outrider/decoder/next_rows.h"
#include "outrider/decoder/short_head.h"
#include "outrider/decoder/workspace.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/device/pass_recorder.h"

namespace outrider {

/// Decoder-only transformers of one shape: normalise, attend, add, normalise, MLP, add. The residual
/// stream, the norms and the softmax are float32; the inputs of matrix products are rounded to the weights'
/// format.
class Decoder {
  public:
    /// Throws std::invalid_argument, naming the field, for a configuration that cannot be.
    Decoder(std::shared_ptr<Device> device, DecoderConfig config, const WeightKinds& weights, KvFormat kv);

    /// Makes room for passes of such sizes, so that no later one of them allocates. Throws
    /// std::invalid_argument for sizes below 1, no logits excepted, or beyond the limits.
    void reserve(int num_rows, int num_logits, int num_sequences, int num_blocks);
    /// Gives the KV cache its memory, once; before that no pass can be. Throws std::invalid_argument when
    /// num_blocks < 1 or beyond the limit, std::logic_error the second time.
    void allocate_cache(int num_blocks);

    /// Has the device record the passes that sequences under way will come in, so that none of them waits for
    /// it; ends when so many seconds have gone. Returns how many there are. That is lost when memory moves or
    /// is given to the cache, and takes no more memory the second time.
    int record_passes(int max_rows, int max_blocks, double seconds);

    /// From now on passes compute the logits of these tokens only, or of all where there are none here;
    /// others are minus infinity. Of a list as long as the last one only the rows that differ are taken anew.
    /// Throws std::invalid_argument for a token outside the vocabulary or too many, std::runtime_error while
    /// weights are missing.
    void shorten_head(const std::vector<int32_t>& token_ids);

    /// What rows of a batch may ask for.
    Adapters& adapters() { return adapters_; }

    const std::shared_ptr<Device>& device() const { return device_; }
    const DecoderConfig& config() const { return config_; }
    /// What loads the weights.
    WeightSlots& weights() { return weights_.slots(); }
    const WeightSlots& weights() const { return weights_.slots(); }
    KvCache& cache() { return cache_; }
    const KvCache& cache() const { return cache_; }
    int64_t kv_bytes_per_token() const;
    /// Bytes of weights that a pass over one row must read.
    int64_t weight_bytes() const;

    /// Writes the keys and values of the batch's rows and returns the asked rows' logits. Throws
    /// std::invalid_argument for a batch that would read out of bounds, std::runtime_error while weights are
    /// missing.
    Logits forward(const Batch& batch);

    /// The rows that the device computes for a pass of so many.
    int padded_rows(int num_rows) const { return passes_->padded({num_rows, 0, 1}).rows; }

    /// The final norm's outputs, unrounded, of rows of the last pass. Throws std::invalid_argument for rows
    /// that it did not have.  # [num_rows, hidden_size]
    std::vector<float> hidden_states(int first_row, int num_rows);

    /// Puts rows in place for passes in which their tables have so many columns; throws as `forward` does.
    /// What the device does to the rows before a pass, the pass sees.
    NextRows place(const Batch& batch, int num_blocks);
    /// A pass over the first so many rows in place. Rows beyond them that fill it up must be inactive.
    Logits pass(int num_rows, int num_logits);

  private:
    void require_complete();
    void enqueue(int num_logits);
    void require_loaded() const;
    void embed();
    void mix(int layer);
    void attend(int layer);
    void convolve(int layer);
    void rotate_and_store(int layer);
    void mlp(int layer);
    void activate(const LayerWeights& layer);
    void lm_head(int num_logits);
    void add_and_normalise(const float* delta, const float* delta_norm, const NormWeights& norm);
    void multiply(const Activations& input, const FusedWeight& weight, const float* bias, float* out);
    /// One part's product, whose columns are a stretch of what all parts write to `out`.
    Product product_of(const Activations& input, const FusedWeight& weight, const FusedWeight::Part& part,
                       const float* bias, float* out);
    int rows() const { return workspace_.rows.places().rows; }

    std::shared_ptr<Device> device_;
    DecoderConfig config_;
    std::vector<DeviceBuffer<float>> frequencies_;  // for each rope: [half_dim]
    DecoderWeights weights_;
    Adapters adapters_;
    std::unique_ptr<ShortHead> short_head_;  // null where all tokens are computed
    KvCache cache_;
    Workspace workspace_;
    std::unique_ptr<ExpertMlp> experts_;  // null where there are none
    std::unique_ptr<PassRecorder> passes_;
    bool complete_ = false;
    int recorded_rows_ = 0;  // of a pass that was run before it was recorded, the most so far
};

}  // namespace outrider
