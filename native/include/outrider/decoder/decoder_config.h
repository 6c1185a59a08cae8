// DecoderConfig: every flag of the transformer; architectures differ only in these.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "outrider/device/expert_operations.h"
#include "outrider/device/operations.h"
#include "outrider/device/rank_link.h"
#include "outrider/device/state_operations.h"

namespace outrider {

class Device;

/// A rotary embedding, shared by the layers that refer to it.
struct Rope {
    std::vector<float> frequencies;  // [rotary_dim / 2]
    float scale = 1.0f;              // multiplies cosine and sine
};

/// How a layer mixes positions.
enum class LayerKind { attention, short_convolution, gated_delta, latent_attention };

/// The parts of attention to latent vectors (arXiv 2405.04434, section 2.1).
struct LatentShape {
    int query_rank = 0;  // of compressed queries; 0: they are not
    int rank = 0;        // of the latent vector, which all heads share
    int turning = 0;     // numbers of a key, which all heads share, and of each query, that turn by position
    int key_dim = 0;     // of a head's keys, without what turns
    int value_dim = 0;   // of a head's values
    float norm_eps = 0.0f;

    /// The numbers that a position keeps.
    int width() const { return rank + turning; }
    int query_dim() const { return key_dim + turning; }
    bool operator==(const LatentShape&) const = default;
};

struct LayerConfig {
    LayerKind kind = LayerKind::attention;
    int window = 0;                    // of attention, in positions; 0: the whole context
    int rope = 0;                      // of attention, index of a rope
    bool looks_ahead = false;          // of attention: a row attends to the later rows of its sequence, too
    std::optional<int> head_dim = {};  // of attention; empty: the decoder's
    std::optional<int> num_kv_heads = {};  // likewise
    bool values_are_keys = false;          // of attention: before their norms and rotation
    std::optional<int> kv_layer = {};      // of attention: an earlier layer whose keys and values it reads
    std::optional<int> target_layer =
        {};        // of attention of an attached drafter: likewise, a layer of its target
    int taps = 0;  // of a short convolution, in positions
    DeltaShape delta = {};
    LatentShape latent = {};
    std::optional<int> mlp_size = {};  // of its MLP for all rows; empty: intermediate_size
    bool has_experts = true;           // if the model has any
};

/// The heads of a layer's attention.
struct AttentionShape {
    int num_heads = 0;
    int num_kv_heads = 0;
    int head_dim = 0;
    bool stores = true;  // keys and values of its own

    int q_size() const { return num_heads * head_dim; }
    int kv_size() const { return num_kv_heads * head_dim; }
    /// The values of a row: queries, and if it stores them, keys and values.
    int qkv_size() const { return q_size() + (stores ? 2 * kv_size() : 0); }
};

/// A mixture of experts: a router chooses `per_token` of `count` MLPs for each row.
struct Experts {
    int count = 0;
    int per_token = 0;
    int size = 0;  // intermediate size of each expert
    RoutingRule rule = {};
    bool have_biases = false;      // of the experts and of the router
    bool has_choice_bias = false;  // of each expert, added to its score when experts are chosen
    bool has_shared_gate = false;  // the MLP for all rows beside the experts is scaled by a gate
    bool have_scales = false;      // each expert's weight is scaled
    bool have_norms = false;  // of the router's and the experts' inputs, and of what MLP and experts give
};

/// How the features of a row are normed: not at all, all as one vector, or each by itself.
enum class FeatureNorm { none, all, each };

/// An attached drafter that predicts several tokens in one pass: over the last token and mask tokens after it.
struct FeatureBlock {
    int size = 0;  // most rows: the last token's and the masks
    int mask_token = 0;
    /// Masks continue the rows that were read, with features of their own; else the features are a context.
    bool continues_rows = false;
    bool first_predicts = false;  // each row predicts the next token; else each mask the token in its place
    int markov_rank = 0;          // of the Markov head; 0: there is none
    bool has_confidence = false;  // it estimates the chance that each row's draw is right

    int most_draws() const { return first_predicts ? size : size - 1; }
};

/// The input of an attached drafter beside its tokens: residual streams of its target, each after some of its layers.
struct Features {
    int count = 0;  // residual streams
    int width = 0;  // of each, the target's hidden size
    FeatureNorm norm = FeatureNorm::none;
    /// fc reads the token's vector and the hidden one; else layer 0 reads both, and fc the features.
    bool fc_reads_both = false;
    bool norm_residual = false;  // the residual begins with the normed hidden vector
    bool norm_carried = false;   // the next row's hidden vector is normed
    bool own_embedding = false;  // else the target's
    int head_size = 0;           // rows of an lm_head of its own; 0: the target's
    std::optional<FeatureBlock> block = {};

    int size() const { return count * width; }
};

struct DecoderConfig {
    std::vector<LayerConfig> layers;
    int hidden_size = 0;
    int intermediate_size = 0;  // size of the MLP that all rows go through; 0: none, where there are experts
    int num_heads = 0;
    int num_kv_heads = 0;
    int head_dim = 0;
    int vocab_size = 0;
    int max_position = 0;
    NormKind norm = NormKind::rms;
    bool norm_bias = false;
    float norm_eps = 0.0f;
    Activation activation = Activation::silu;
    float query_scale = 1.0f;
    float attention_softcap = 0.0f;  // 0: none
    bool attention_gate = false;     // each value of a head's output has a gate, a sigmoid
    bool attention_sinks = false;    // each head has one more score, without a value, in its softmax
    float logit_softcap = 0.0f;      // 0: none
    float embedding_scale = 1.0f;
    float logit_scale = 1.0f;
    std::vector<Rope> ropes;
    bool conv_bias = false;  // on both projections of a short convolution and the convolution itself
    QkNorm qk_norm = QkNorm::none;
    bool value_norm = false;   // each head of values is divided by its root mean square
    bool layer_scale = false;  // the residual is scaled after each layer
    int layer_input_size = 0;  // of each layer's own input, which depends on the row's token; 0: none
    bool pre_norm = true;
    bool post_norm = false;
    bool attention_bias = false;  // on query, key and value
    bool output_bias = false;     // on attention's output projection
    bool mlp_bias = false;
    bool gated_mlp = true;
    bool parallel_mlp = false;  // the MLP reads attention's input, not the residual after attention
    bool tied_embeddings = false;
    std::optional<Experts> experts;    // added to the MLP for all rows
    std::optional<Features> features;  // of an attached drafter
    Rank rank = {};                    // of the device, which holds a part of the model

    /// The heads of the rank.
    AttentionShape attention(const LayerConfig& layer) const {
        return {num_heads / rank.count, layer.num_kv_heads.value_or(num_kv_heads) / rank.count,
                layer.head_dim.value_or(head_dim), !layer.kv_layer && !layer.target_layer};
    }
    /// The outputs of all ranks' heads.
    int attended_size(const LayerConfig& layer) const {
        return num_heads * layer.head_dim.value_or(head_dim);
    }
    AttentionShape attention(int layer) const { return attention(layers[layer]); }
    int conv_in_size() const { return 3 * hidden_size; }
    int num_layers() const { return static_cast<int>(layers.size()); }
    /// Whether any layer is of this kind.
    bool has(LayerKind kind) const {
        return std::any_of(layers.begin(), layers.end(),
                           [=](const LayerConfig& layer) { return layer.kind == kind; });
    }
    /// The shape of the layers with the gated delta rule, which is the same for all; empty if there are none.
    DeltaShape delta_shape() const;
    /// The rank's heads of it.
    DeltaShape own_delta_shape() const;
    /// The shape of the layers with latent attention, which is the same for all; empty if there are none.
    LatentShape latent_shape() const;
    /// The bytes that all layers of the rank together keep of one position.
    int64_t position_bytes(KvFormat format) const;
    /// The bytes of one sequence's states on the rank, in all layers together.
    int64_t state_bytes(int ring_rows) const;
    /// How an attached drafter predicts several tokens in one pass; null if it does not.
    const FeatureBlock* block() const { return features && features->block ? &*features->block : nullptr; }
    /// Whether a layer of an attached drafter reads the token's vector and the hidden one, instead of the residual.
    bool reads_both(int layer) const { return has_hidden_rows() && !features->fc_reads_both && layer == 0; }
    /// Whether the features of an attached drafter are a context of its blocks: each layer computes their keys and
    /// values, and nothing else.
    bool has_context() const { return block() && !block()->continues_rows; }
    /// Whether each row of an attached drafter has a hidden vector beside its token.
    bool has_hidden_rows() const { return features && !has_context(); }
    /// Whether the layers of an attached drafter read keys and values of its target, of the positions before a row, and
    /// have none of their own. Then all rows of a run of draws are at the same position, and their hidden vectors are as
    /// wide as the target's.
    bool reads_target() const { return features && layers.front().target_layer; }
    /// The width of the token's vector of a row, and of its hidden vector.
    int row_vector_size() const { return reads_target() ? features->width : hidden_size; }
    /// Whether a pass of an attached drafter carries hidden vectors over to the next one.
    bool carries_hidden() const { return features && !block(); }
    /// Whether rows attend to later ones in any layer.
    bool looks_ahead() const {
        return std::any_of(layers.begin(), layers.end(),
                           [](const LayerConfig& layer) { return layer.looks_ahead; });
    }
    /// The inputs of a layer's queries, keys and values.
    int attention_input_size(int layer) const { return reads_both(layer) ? 2 * hidden_size : hidden_size; }
    /// The size of a layer's MLP for all rows; 0: it has none.
    int mlp_size(int layer) const { return layers[layer].mlp_size.value_or(intermediate_size); }
    int largest_mlp_size() const {
        int largest = 0;
        for (int layer = 0; layer < num_layers(); ++layer) {
            largest = std::max(largest, mlp_size(layer));
        }
        return largest;
    }
    bool has_experts(int layer) const { return experts && layers[layer].has_experts; }
    int gate_up_size() const { return (gated_mlp ? 2 : 1) * rank.own(largest_mlp_size()); }

    /// Throws std::invalid_argument that names the invalid field.
    void validate() const;
    /// Also rejects configurations that the device does not support.
    void validate(const Device& device) const;
    /// Throws std::invalid_argument that names the field by which an attached drafter does not fit its target.
    void validate_target(const DecoderConfig& target) const;
    /// Throws std::invalid_argument that names a field by which so many devices cannot share the model, and the
    /// numbers that could.
    void validate_ranks(int count) const;
};

}  // namespace outrider
