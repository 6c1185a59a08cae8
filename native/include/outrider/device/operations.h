// The arguments of a device's coarse operations: raw pointers into device memory, and sizes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "outrider/device/format.h"

namespace outrider {

class PackedWeight;

/// The number of positions per KV block, and per attention chunk.
constexpr int kBlockSize = 32;

/// Activation rows are stored with a stride that is a multiple of this many elements, zero beyond their
/// width.
constexpr int kActivationAlignment = 32;

/// Activation functions: gelu is exact (arXiv 1606.08415), gelu_tanh its tanh approximation; clamped_swiglu
/// combines gate and up as GPT-OSS does.
enum class Activation { silu, gelu, gelu_tanh, clamped_swiglu };
/// Root mean square norm (arXiv 1910.07467), or layer norm, which subtracts the mean first (arXiv
/// 1607.06450).
enum class NormKind { rms, layer };
/// The scope of the norm of queries and keys: each head, with weights that all heads share (head) or with its
/// own (each), or all heads as one vector (full).
enum class QkNorm { none, head, each, full };

/// The input rows of a matrix product, already rounded to its format.  # [rows, stride]
struct Activations {
    void* data = nullptr;
    Format format = Format::f32;
    int64_t stride = 0;  // elements
};

/// One layer's paged keys and values.  # [num_blocks, Device::kv_block_bytes]
struct KvLayer {
    void* data = nullptr;
    KvFormat format = KvFormat::f32;
    int num_kv_heads = 0;
    int head_dim = 0;
    /// Latent vectors are the first numbers of the only head's keys, and its values; 0: values are stored beside keys.
    int latent_rank = 0;

    constexpr int value_dim() const { return latent_rank > 0 ? latent_rank : head_dim; }
};

/// One layer's paged inputs of a short convolution.
/// # [num_blocks, kBlockSize, width]
struct ConvLayer {
    void* data = nullptr;
    Format format = Format::f32;
    int width = 0;
};

/// The bytes of one block of such a layer.
constexpr size_t conv_block_bytes(Format format, int width) {
    return size_t{kBlockSize} * width * size_of(format);
}

constexpr int kInactive = -1;

/// Each row's sequence and position, and the sequences' block tables. Device memory. A row at position
/// kInactive pads the pass: it neither reads nor writes the cache, and its output is ignored. The rows of one
/// sequence are in the order of their positions, without gaps; no row of the pass writes positions before the
/// sequence's first row.
struct RowPlaces {
    const int32_t* positions = nullptr;     // [rows]
    const int32_t* ends = nullptr;          // [rows] the last position that each attends to; null: its own
    const int32_t* sequences = nullptr;     // [rows]
    const int32_t* block_tables = nullptr;  // [sequences, max_blocks]
    int max_blocks = 0;
    int rows = 0;
};

/// residual[row] = scale * table[token_ids[row]]
struct Embed {
    const PackedWeight* table = nullptr;
    const int32_t* token_ids = nullptr;  // [rows]
    float scale = 1.0f;
    float* residual = nullptr;  // [rows, table->in_features()]
    int rows = 0;
};

/// Cosine and sine of position * frequency, both times scale. The angle is rounded to float32, as in the
/// models' reference code.
struct RotaryAngles {
    const int32_t* positions = nullptr;  // [rows]
    const float* frequencies = nullptr;  // [half_dim]
    float scale = 1.0f;
    int half_dim = 0;
    float* out = nullptr;  // [rows, 2, half_dim]: cosines, then sines
    int rows = 0;
};

/// residual += delta_norm ? rms_norm(delta) * delta_norm : delta     (if there is a delta)
/// residual *= scale                                                 (if there is a delta)
/// out = norm ? normalised(residual) * norm + norm_bias : residual   (norm_bias only with a layer norm)
struct ResidualNorm {
    float* residual = nullptr;          // [rows, width]
    bool replaces = false;              // the residual is 0 before; then it may be the delta, too
    const float* delta = nullptr;       // [rows, width] or null
    const float* delta_norm = nullptr;  // [width] or null
    const float* scale = nullptr;       // [1] or null; not with a layer norm
    const float* norm = nullptr;        // [width] or null
    const float* norm_bias = nullptr;   // [width] or null
    NormKind kind = NormKind::rms;      // of the output; delta_norm is always rms
    float eps = 0.0f;
    Activations out;
    int rows = 0;
    int width = 0;
};

/// out = input * weight^T + bias
struct Product {
    Activations input;  // [rows, in_features]
    const PackedWeight* weight = nullptr;
    const float* bias = nullptr;  // [out_features] or null
    float* out = nullptr;         // [rows, out_stride]; only the first out_features are written
    int64_t out_stride = 0;
    int rows = 0;
    float* scratch = nullptr;  // of the size of Device::product_scratch, or null, which may be slower
};

/// Normalises (if requested) and rotates queries and keys, scales the queries in place, and stores keys and
/// values in the cache's format. A cache without heads stores nothing.
struct RotateAndStore {
    float* qkv = nullptr;          // [rows, (num_heads + 2 * num_kv_heads) * head_dim]
    bool values_are_keys = false;  // as they are before norm and rotation
    RowPlaces places;
    const float* angles = nullptr;  // [rows, 2, half_dim]
    int half_dim = 0;               // rotated pairs; dimensions from 2 * half_dim on pass through
    QkNorm qk_norm = QkNorm::none;
    NormKind norm_kind = NormKind::rms;  // a layer norm covers each head, never all heads as one
    const float* q_norm = nullptr;       // [head_dim] or [num_heads * head_dim]
    const float* k_norm = nullptr;       // [head_dim] or [num_kv_heads * head_dim]
    const float* v_norm = nullptr;       // [head_dim] or null; of each head of values, with root mean squares
    float eps = 0.0f;
    float query_scale = 1.0f;
    int num_heads = 0;
    KvLayer cache;
};

/// Each row attends to the stored positions of its sequence up to its own, or its end; at most `window` of them (0: all).
/// A sink is one more score of a head, without a value (arXiv 2309.17453).
struct Attention {
    const float* qkv = nullptr;  // [rows, qkv_stride]; only the queries are read, which come first
    int64_t qkv_stride = 0;
    RowPlaces places;
    int num_heads = 0;
    int window = 0;
    float softcap = 0.0f;  // 0: none
    KvLayer cache;
    Activations out;               // [rows, num_heads * value_dim]
    float* scratch = nullptr;      // of the size that Device::attention_scratch returns
    const float* sinks = nullptr;  // [num_heads] or null
};

/// Normalises each row's latent vector, rotates the part of the key after it, and stores both. Completes the queries,
/// whose latent parts are there: after each, the part of its query that turns is rotated; then all is scaled.
struct StoreLatents {
    const float* compressed = nullptr;  // [rows, head_dim]: the latent vector, then the part that turns
    const float* norm = nullptr;        // [latent_rank]
    float eps = 0.0f;
    const float* queries = nullptr;  // [rows, num_heads, query_dim], the last numbers of each turn
    int query_dim = 0;
    float* latent_queries = nullptr;  // [rows, num_heads, head_dim]
    float query_scale = 1.0f;
    int num_heads = 0;
    RowPlaces places;
    const float* angles = nullptr;  // [rows, 2, half_dim]
    int half_dim = 0;               // of the part that turns: (head_dim - latent_rank) / 2
    KvLayer cache;
};

/// Stores each row's own input, B * x, at its position. Then, from the inputs as they are stored,
/// out = C * (bias + the sum of taps[i] * input[position - (num_taps - 1) + i]), in the order of i; inputs
/// before position 0 count as zero.
struct ShortConvolution {
    const float* projected = nullptr;  // [rows, 3 * width]: B, C, x
    RowPlaces places;
    const float* taps = nullptr;  // [num_taps, width]; the last tap is for the row's own position
    int num_taps = 0;
    const float* bias = nullptr;  // [width] or null
    ConvLayer cache;
    Activations out;  // [rows, width]
};

/// out = is_gated ? activation(gate) * up : activation(up); clamped_swiglu combines gate and up itself
struct Activate {
    const float* gate_up = nullptr;  // [rows, 2 * width]: gates, then ups; or [rows, width]: ups
    Activation activation = Activation::silu;
    bool is_gated = true;
    const float* ups = nullptr;  // [rows, ups_stride] of gates that are alone in `gate_up`, or null
    int64_t ups_stride = 0;
    Activations out;  // [rows, width]
    int rows = 0;
    int width = 0;
};

/// inputs = (inputs + rms_norm(projected) * norm) * scale, where the norm is of each layer's values
struct LayerInput {
    float* inputs = nullptr;           // [rows, layers, width]
    const float* projected = nullptr;  // [rows, layers, width]
    const float* norm = nullptr;       // [width]
    float eps = 0.0f;
    float scale = 1.0f;
    int rows = 0;
    int layers = 0;
    int width = 0;
};

/// out[i] = in[indices[i]]
struct GatherRows {
    Activations in;
    const int32_t* indices = nullptr;  // [rows]
    Activations out;
    int rows = 0;
    int width = 0;
};

/// out[i, columns[j]] = in[i, j]; all other columns are minus infinity
struct SpreadColumns {
    const float* in = nullptr;         // [rows, count]
    const int32_t* columns = nullptr;  // [count]
    int count = 0;
    float* out = nullptr;  // [rows, width]
    int rows = 0;
    int width = 0;
};

/// values = cap * tanh(values / cap)
struct SoftCap {
    float* values = nullptr;
    float cap = 0.0f;
    int64_t count = 0;
};

/// The bytes that one task of a Read loads; the size of a Read is a multiple of this.
constexpr size_t kReadUnit = size_t{1} << 16;

/// Loads every byte of a memory range once: in stripes, which threads take in turn, or in one contiguous
/// range for each thread.
struct Read {
    const char* from = nullptr;
    size_t bytes = 0;
    bool in_stripes = false;
};

}  // namespace outrider
