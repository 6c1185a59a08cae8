// Decoder: the transformer with its weights and its paged KV cache.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "outrider/decoder/adapters.h"
#include "outrider/decoder/attention_mixer.h"
#include "outrider/decoder/batch.h"
#include "outrider/decoder/convolution_mixer.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/decoder/decoder_weights.h"
#include "outrider/decoder/delta_mixer.h"
#include "outrider/decoder/expert_mlp.h"
#include "outrider/decoder/feature_input.h"
#include "outrider/decoder/kv_cache.h"
#include "outrider/decoder/layer_inputs.h"
#include "outrider/decoder/linear.h"
#include "outrider/decoder/markov_head.h"
#include "outrider/decoder/pass.h"
#include "outrider/decoder/short_head.h"
#include "outrider/decoder/workspace.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/device/next_rows.h"
#include "outrider/device/pass_recorder.h"
#include "outrider/device/ranks.h"

namespace outrider {

/// Decoder-only transformers with layers of one structure: normalise, attend, add, normalise, MLP, add. The
/// residual stream, the norms and the softmax are float32; the inputs of matrix products are rounded to the
/// weights' format.
class Decoder {
  public:
    /// `target` has the features and the tables of an attached drafter, and must outlive it. `link` leads to the other
    /// ranks, if the configuration has any. Throws std::invalid_argument, naming the field, for an invalid
    /// configuration.
    Decoder(std::shared_ptr<Device> device, DecoderConfig config, const WeightKinds& weights, KvFormat kv,
            const Decoder* target = nullptr, std::unique_ptr<RankLink> link = nullptr);

    /// Allocates memory for passes up to these sizes, so that none of them allocates. Throws
    /// std::invalid_argument for sizes below 1 (0 logits are allowed) or beyond the limits.
    void reserve(int num_rows, int num_logits, int num_sequences, int num_blocks);
    /// Allocates the KV cache, once; no pass can run before. Throws std::invalid_argument when num_blocks < 1
    /// or beyond the limit, std::logic_error the second time.
    void allocate_cache(int num_blocks);
    /// Allocates the memory of the states of `num_slots` sequences, once; no pass can run before where layers
    /// carry states. A pass may have about `ring_rows` rows that a verdict can reject. Throws
    /// std::invalid_argument for counts out of range, and if no layer carries a state.
    void allocate_states(int num_slots, int ring_rows);

    /// The usual pass shapes, which the device can `record` in advance, so that no sequence waits for a recording.
    /// Recordings are lost when memory moves or the cache is allocated; recording again takes no more memory.
    std::vector<PassShape> begin_recording(int max_rows, int max_blocks);
    void record(const PassShape& shape);

    /// Restricts the following passes to the logits of these tokens; all other logits are minus infinity. An
    /// empty list restores the whole vocabulary. If the list is as long as the previous one, only the rows
    /// that differ are copied. Throws std::invalid_argument for a token outside the vocabulary or too many
    /// tokens, and if the lm_head has rows for some tokens only; std::runtime_error while weights are missing.
    void shorten_head(const std::vector<int32_t>& token_ids);

    /// Lets the following passes keep features for an attached drafter: the residual stream after so many layers,
    /// which is the embedding after 0. Throws std::invalid_argument for a number out of range.
    void keep_features(const std::vector<int>& boundaries);

    /// Sets the tokens of an attached drafter's own lm_head that has fewer rows than the vocabulary; no pass can run
    /// before. Throws std::invalid_argument for another number of tokens, and for a token outside the vocabulary.
    void set_head_tokens(const std::vector<int32_t>& token_ids);

    /// Computes the hidden vectors of an attached drafter's next rows, those of the next batch, from the features of
    /// these rows of its target's pass. Throws std::invalid_argument for rows that the pass did not have,
    /// std::logic_error if its results are gone.
    void read_features(const Pass& pass, const std::vector<int32_t>& rows);

    /// Sets the hidden vectors of the next batch's rows from `first_row` on to that of a mask. Throws
    /// std::invalid_argument if no vectors are there for the rows before, and for another decoder.
    void add_masks(int first_row, int count);

    /// Stores each layer's keys and values of these rows of a drafter with a context, from their hidden vectors.
    /// Throws as `forward` does, and std::invalid_argument for another decoder.
    void store_context(const Batch& batch);

    /// Moves the logits of `rows` requested rows of the last pass, from the requested row `first` on, to the first rows
    /// of the buffer, which they overwrite. A Markov head first adds what the token before each row says; `before` is in
    /// device memory.  # before: [rows]
    void take_logits(int first, int rows, const int32_t* before);

    /// The estimated chance that the draw of each requested row of the last pass is right, given the token before it.
    /// Throws std::invalid_argument for a decoder without a confidence, or another number of tokens.
    std::vector<float> confidences(const std::vector<int32_t>& before);

    /// The LoRA adapters that a batch's sequences may select.
    Adapters& adapters() { return adapters_; }

    const std::shared_ptr<Device>& device() const { return device_; }
    const DecoderConfig& config() const { return config_; }
    /// The slots through which the weights are loaded.
    WeightSlots& weights() { return weights_.slots(); }
    const WeightSlots& weights() const { return weights_.slots(); }
    /// The states of all layers, slot by slot; null before they are allocated.
    KvCache* states() { return states_.get(); }
    const KvCache* states() const { return states_.get(); }
    /// The most rows from a stored state on that its ring keeps, beside those that a convolution reads.
    int state_reach() const { return ring_rows_ - (config_.delta_shape().taps - 1); }
    KvCache& cache() { return cache_; }
    const KvCache& cache() const { return cache_; }
    int64_t kv_bytes_per_token() const { return config_.position_bytes(kv_); }
    /// The number of bytes of weights that a pass over one row must read.
    int64_t weight_bytes() const;

    /// Writes the keys and values of the batch's rows and computes the requested logits; those of a drafter with a
    /// Markov head are there after `take_logits` only. Throws std::invalid_argument for a batch that would read out of
    /// bounds, std::runtime_error while weights are missing.
    Pass forward(const Batch& batch);

    /// The number of rows that the device computes for a pass over `num_rows` rows.
    int padded_rows(int num_rows) const { return passes_->padded({num_rows, 0, 1}).rows; }

    /// Uploads the batch for passes whose block tables have `num_blocks` columns; throws as `forward` does. A
    /// pass sees the changes that the device makes to these rows before it; but rows that look ahead keep their ends.
    NextRows place(const Batch& batch, int num_blocks);
    /// The results of the last pass.
    Pass results(int num_rows);
    /// Runs a pass over the first `num_rows` uploaded rows. The rows after them that pad the pass must be
    /// inactive.
    void pass(int num_rows, int num_logits);

  private:
    friend class Pass;

    /// The input of the lm_head, before it is rounded, for rows of the last pass.
    std::vector<float> normed_states(int first_row, int num_rows);
    std::vector<size_t> block_bytes() const;
    bool reserve_layers(const PassShape& shape, int num_states);
    size_t exchanged_bytes(const PassShape& shape) const;
    void require_complete();
    void enqueue(int num_logits);
    void require_loaded() const;
    void require_states() const;
    void require_features(const Batch& batch) const;
    TokenColumns* columns() { return short_head_ ? &short_head_->columns() : columns_.get(); }
    void embed();
    void keep_feature(int boundary);
    void mix(int layer);
    void mlp(int layer);
    void activate(const LayerWeights& layer, int size);
    void lm_head(int num_logits);
    void end_layer(int layer, const NormWeights& norm);
    void add_and_normalise(const float* delta, const float* delta_norm, const float* scale,
                           const NormWeights& norm);
    int rows() const { return workspace_.rows.places().rows; }

    std::shared_ptr<Device> device_;
    DecoderConfig config_;
    KvFormat kv_;
    const Decoder* target_;  // null: it is no attached drafter
    DecoderWeights weights_;
    Adapters adapters_;
    Ranks ranks_;
    Linear linear_;
    AttentionMixer attention_;
    ConvolutionMixer convolution_;
    DeltaMixer delta_;
    LatentMixer latent_;
    std::unique_ptr<ShortHead> short_head_;  // null: logits are computed for all tokens
    std::unique_ptr<TokenColumns> columns_;  // null: the lm_head has a row for each token
    KvCache cache_;
    std::unique_ptr<KvCache> states_;  // null: not allocated yet
    int ring_rows_ = 0;
    int num_logits_ = 0;  // of the last pass
    Workspace workspace_;
    std::unique_ptr<ExpertMlp> experts_;           // null: the model has no experts
    std::unique_ptr<LayerInputs> layer_inputs_;    // null: layers have no inputs of their own
    std::unique_ptr<FeatureInput> feature_input_;  // null: it is no attached drafter
    std::unique_ptr<MarkovHead> markov_;           // null: tokens before a row do not change its logits
    std::vector<int> boundaries_;                  // after which features are kept
    DeviceBuffer<float> features_;                 // [rows, boundaries * hidden]
    std::unique_ptr<PassRecorder> passes_;
    bool complete_ = false;
    int64_t results_version_ = 0;  // changes whenever the results of the last pass are overwritten
    int recorded_rows_ = 0;        // rows of the largest pass that record_passes has run before recording it
};

}  // namespace outrider
