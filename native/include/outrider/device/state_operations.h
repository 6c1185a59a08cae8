// The arguments of operations on layers that carry a state along the sequence, and of the gates beside them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "outrider/device/operations.h"

namespace outrider {

/// The heads of a state have a multiple of this many rows and columns.
constexpr int kStateDimUnit = 32;
/// The most rows, and columns, of a head's state.
constexpr int kMostStateDim = 256;

/// The place of a sequence's state, and how far it has come.
struct StatePlace {
    int32_t slot = -1;
    int32_t position = 0;       // the stored state has seen the rows before this position
    int32_t certain = 0;        // no verdict can reject rows before this position
    int32_t kept_slot = -1;     // gets a copy of the state at kept_position; -1: none does
    int32_t kept_position = 0;  // from position to certain
    int32_t first_row =
        0;             // of the sequence's rows in the pass, which are contiguous; set when they are uploaded
    int32_t rows = 0;  // likewise; 0: the sequence has none
};

/// The sizes of a layer with the gated delta rule.
struct DeltaShape {
    int key_heads = 0;
    int value_heads = 0;  // a multiple of key_heads: value head h uses key head h * key_heads / value_heads
    int key_dim = 0;
    int value_dim = 0;
    int taps = 0;  // of the convolution of queries, keys and values

    bool operator==(const DeltaShape&) const = default;

    constexpr int key_size() const { return key_heads * key_dim; }
    constexpr int value_size() const { return value_heads * value_dim; }
    /// Queries and keys of all key heads, then values of all value heads.
    constexpr int channels() const { return 2 * key_size() + value_size(); }
    /// The values of a row that are kept for a later pass: its channels, then decay and rate of each value head.
    constexpr int64_t ring_width() const { return channels() + int64_t{2} * value_heads; }
    /// The floats of one sequence's state: a matrix for each value head, then the ring of its last rows.
    constexpr int64_t slot_size(int ring_rows) const {
        return int64_t{key_dim} * value_size() + ring_rows * ring_width();
    }
};

/// The gated delta rule (Yang, Kautz, Hatamizadeh, arXiv 2412.06464) in float32, token by token. With q, k and v of
/// the convolved and activated channels, q and k of length 1 and q divided by sqrt(key_dim):
///   S = decay * S;  S += k (rate * (v - S^T k))^T;  out = S^T q
/// decay = e^(-e^(decay_log) * softplus(a + decay_bias)), rate = sigmoid(b). Rows of a sequence are contiguous.
/// The rows between the stored state and the pass are replayed from the ring. The state is stored at the last
/// certain row, and all rows enter the ring. On the way a copy is stored in the kept slot, with the rows that a
/// convolution reads next.
struct DeltaRule {
    const float* projected = nullptr;  // [rows, channels]
    float* gates = nullptr;  // [rows, 2 * value_heads]: b, then a; may be replaced by rate, then decay
    RowPlaces places;
    const StatePlace* states = nullptr;  // [sequences]
    int sequences = 0;
    const float* taps = nullptr;        // [shape.taps, channels]; the last tap is for the row itself
    const float* decay_log = nullptr;   // [value_heads]
    const float* decay_bias = nullptr;  // [value_heads]
    DeltaShape shape;
    float* slots = nullptr;  // [slots, shape.slot_size(ring_rows)]
    int ring_rows = 0;
    float* scratch = nullptr;  // [Device::delta_scratch]
    float* out = nullptr;      // [rows, value_size]
};

/// out = rms_norm(values of each head) * norm * silu(gates)
struct GatedNorm {
    const float* values = nullptr;  // [rows, heads * head_dim]
    const float* gates = nullptr;   // [rows, heads * head_dim]
    const float* norm = nullptr;    // [head_dim]
    float eps = 0.0f;
    Activations out;
    int rows = 0;
    int heads = 0;
    int head_dim = 0;
};

/// values *= sigmoid(gates)
struct SigmoidGate {
    Activations values;            // [rows, width]
    const float* gates = nullptr;  // [rows, width]
    int rows = 0;
    int width = 0;
};

}  // namespace outrider
