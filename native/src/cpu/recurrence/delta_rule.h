// The gated delta rule of one value head (see DeltaRule). Lanes are columns of the state, so that no sum crosses
// lanes, and every instruction set with a fused multiply_add computes the same bits.
#pragma once

#include "cpu/elementwise/normalise.h"
#include "cpu/vec/elementary.h"
#include "cpu/vec/vec.h"
#include "outrider/decoder/limits.h"
#include "outrider/device/state_operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

constexpr int kQuarters = 4;          // partial sums over the rows of the state, so that four lanes of a GPU
                                      // can share a column
constexpr int64_t kDeltaTokens = 16;  // tokens whose vectors are prepared at once
constexpr int kDeltaVectors = 2;      // vectors of columns that are computed side by side

/// The vectors of consecutive tokens of one value head.
struct DeltaTokens {
    float queries[kDeltaTokens][kMostStateDim];
    float keys[kDeltaTokens][kMostStateDim];
    float values[kDeltaTokens][kMostStateDim];
    float rates[kDeltaTokens];
    float decays[kDeltaTokens];
};

/// One sequence and value head of a pass.
class DeltaHead {
  public:
    DeltaHead(const DeltaRule& op, const StatePlace& place, int head)
        : op_(op),
          place_(place),
          head_(head),
          start_(op.places.positions[place.first_row]),
          state_(state_in(place_.slot)),
          ring_(op.slots + place_.slot * op.shape.slot_size(op.ring_rows) +
                int64_t{op.shape.key_dim} * op.shape.value_size()) {}

    /// Replays the rows that are certain by now, computes those of the pass that are certain, and then the others
    /// on a copy of the state.
    void run(float* copy) {
        const int64_t size = int64_t{op_.shape.key_dim} * op_.shape.value_dim;
        const int64_t end = start_ + place_.rows;
        if (place_.position == 0) {
            __builtin_memset(state_, 0, size * sizeof(float));
        }
        int64_t position = place_.position;
        if (place_.kept_slot >= 0) {
            advance(state_, position, place_.kept_position);
            __builtin_memcpy(state_in(place_.kept_slot), state_, size * sizeof(float));
            position = place_.kept_position;
        }
        advance(state_, position, place_.certain);
        if (place_.certain < end) {
            __builtin_memcpy(copy, state_, size * sizeof(float));
            advance(copy, place_.certain, end);
        }
    }

  private:
    void advance(float* state, int64_t position, int64_t end) {
        for (; position < end; position += kDeltaTokens) {
            const int64_t count = smaller(kDeltaTokens, end - position);
            for (int64_t token = 0; token < count; ++token) {
                prepare(position + token, token);
            }
            for (int64_t column = 0; column < op_.shape.value_dim; column += kDeltaVectors * kLanes) {
                for (int64_t token = 0; token < count; ++token) {
                    step(state + column, position + token, token, column);
                }
            }
        }
    }

    float* state_in(int64_t slot) const {
        return op_.slots + slot * op_.shape.slot_size(op_.ring_rows) +
               head_ * op_.shape.key_dim * op_.shape.value_dim;
    }

    /// The kept values of a row: in the pass, or in the ring.
    const float* channels_of(int64_t position) const {
        return position < start_
                   ? ring_ + position % op_.ring_rows * op_.shape.ring_width()
                   : op_.projected + (place_.first_row + position - start_) * op_.shape.channels();
    }
    const float* gates_of(int64_t position) const {
        return position < start_
                   ? channels_of(position) + op_.shape.channels()
                   : op_.gates + (place_.first_row + position - start_) * 2 * op_.shape.value_heads;
    }

    void prepare(int64_t position, int64_t token) {
        const DeltaShape& shape = op_.shape;
        const int64_t before = position - (shape.taps - 1);
        for (int64_t tap = larger(0, -before); tap < shape.taps; ++tap) {
            inputs_[tap] = channels_of(before + tap);
        }
        const int64_t key_head = head_ * shape.key_heads / shape.value_heads;
        float* query = tokens_.queries[token];
        float* key = tokens_.keys[token];
        convolve(position, key_head * shape.key_dim, shape.key_dim, query);
        convolve(position, shape.key_size() + key_head * shape.key_dim, shape.key_dim, key);
        convolve(position, 2 * shape.key_size() + head_ * shape.value_dim, shape.value_dim,
                 tokens_.values[token]);
        normalise(query, 1.0f / __builtin_sqrtf(static_cast<float>(shape.key_dim)));
        normalise(key, 1.0f);
        const float* gates = gates_of(position);
        tokens_.rates[token] = gates[head_];
        tokens_.decays[token] = gates[shape.value_heads + head_];
    }

    /// out = silu(sum of taps * inputs), oldest first; inputs before position 0 count as zero.
    void convolve(int64_t position, int64_t channel, int64_t count, float* out) const {
        const int64_t before = position - (op_.shape.taps - 1);
        for (int64_t at = 0; at < count; at += kLanes) {
            Vec sum{};
            for (int64_t tap = larger(0, -before); tap < op_.shape.taps; ++tap) {
                const Vec weights = load(op_.taps + tap * op_.shape.channels() + channel + at);
                sum = multiply_add(weights, load(inputs_[tap] + channel + at), sum);
            }
            store(out + at, silu(sum));
        }
    }

    /// Divides a vector by its length, and multiplies it by `scale`. The sum has 16 parts on every instruction set.
    void normalise(float* vector, float scale) const {
        constexpr int kParts = 16 / kLanes;
        Vec parts[kParts] = {};
        for (int64_t at = 0; at < op_.shape.key_dim; at += 16) {
            for (int part = 0; part < kParts; ++part) {
                const Vec value = load(vector + at + part * kLanes);
                parts[part] = multiply_add(value, value, parts[part]);
            }
        }
        for (int half = kParts / 2; half > 0; half /= 2) {
            for (int part = 0; part < half; ++part) {
                parts[part] += parts[part + half];
            }
        }
        const float factor = 1.0f / __builtin_sqrtf(sum_lanes(parts[0]) + kLengthEps);
        for (int64_t at = 0; at < op_.shape.key_dim; at += kLanes) {
            store(vector + at, load(vector + at) * factor * scale);
        }
    }

    /// Calls visit(part, vector, row, values of the state) for all rows of some columns, a row of each quarter in
    /// turn.
    template <typename Visit>
    OUTRIDER_INLINE void for_values(float* state, const Visit& visit) const {
        const int64_t quarter = op_.shape.key_dim / kQuarters;
        for (int64_t i = 0; i < quarter; ++i) {
#pragma GCC unroll 4
            for (int part = 0; part < kQuarters; ++part) {
                const int64_t row = part * quarter + i;
#pragma GCC unroll 2
                for (int vector = 0; vector < kDeltaVectors; ++vector) {
                    visit(part, vector, row, state + row * op_.shape.value_dim + vector * kLanes);
                }
            }
        }
    }

    /// Updates some columns of the state by one token, and writes their outputs if its row is in the pass.
    void step(float* state, int64_t position, int64_t token, int64_t column) const {
        const float* key = tokens_.keys[token];
        const float* query = tokens_.queries[token];
        const Vec decay = splat(tokens_.decays[token]);
        Vec before[kQuarters][kDeltaVectors] = {};
        for_values(state, [&](int part, int vector, int64_t row, const float* at) {
            before[part][vector] = multiply_add(load(at) * decay, splat(key[row]), before[part][vector]);
        });
        Vec update[kDeltaVectors];
        for (int vector = 0; vector < kDeltaVectors; ++vector) {
            const Vec value = load(tokens_.values[token] + column + vector * kLanes);
            update[vector] = (value - total(before, vector)) * tokens_.rates[token];
        }
        Vec sums[kQuarters][kDeltaVectors] = {};
        for_values(state, [&](int part, int vector, int64_t row, float* at) {
            const Vec next = multiply_add(splat(key[row]), update[vector], load(at) * decay);
            store(at, next);
            sums[part][vector] = multiply_add(next, splat(query[row]), sums[part][vector]);
        });
        if (position >= start_) {
            const int64_t width = op_.shape.value_size();
            float* out = op_.out + (place_.first_row + position - start_) * width +
                         head_ * op_.shape.value_dim + column;
            for (int vector = 0; vector < kDeltaVectors; ++vector) {
                store(out + vector * kLanes, total(sums, vector));
            }
        }
    }

    static Vec total(const Vec (&sums)[kQuarters][kDeltaVectors], int vector) {
        return (sums[0][vector] + sums[1][vector]) + (sums[2][vector] + sums[3][vector]);
    }

    static constexpr float kLengthEps = 1e-6f;

    const DeltaRule& op_;
    const StatePlace& place_;
    int64_t head_;
    int64_t start_;  // position of the pass's first row
    float* state_;
    const float* ring_;
    const float* inputs_[kMostTaps];  // the rows that a token's convolution reads, by tap
    DeltaTokens tokens_;
};

inline void delta_rule(const DeltaRule& op, const StatePlace& place, int head) {
    float copy[kMostStateDim * kMostStateDim];
    DeltaHead(op, place, head).run(copy);
}

template <typename T>
inline void write_gated_norm(const GatedNorm& op, int64_t row, T* out) {
    for (int64_t head = 0; head < op.heads; ++head) {
        const int64_t at = (row * op.heads + head) * op.head_dim;
        const float factor = inverse_rms(op.values + at, op.head_dim, op.eps);
        for (int64_t column = 0; column < op.head_dim; column += kLanes) {
            const int64_t count = op.head_dim - column;
            const Vec gate = silu(load_first(op.gates + at + column, count));
            const Vec value = load_first(op.values + at + column, count) * factor;
            store_first(out + head * op.head_dim + column, value * load_first(op.norm + column, count) * gate,
                        count);
        }
    }
}

inline void gated_norm(const GatedNorm& op, int64_t row) {
    const int64_t at = row * op.out.stride;
    if (op.out.format == Format::bf16) {
        write_gated_norm(op, row, static_cast<BFloat16*>(op.out.data) + at);
    } else {
        write_gated_norm(op, row, static_cast<float*>(op.out.data) + at);
    }
}

template <typename T>
inline void gate_columns(T* values, const float* gates, int64_t width) {
    for (int64_t at = 0; at < width; at += kLanes) {
        const int64_t count = width - at;
        const Vec share = 1.0f / (1.0f + exponential(-load_first(gates + at, count)));
        store_first(values + at, load_first(values + at, count) * share, count);
    }
}

inline void sigmoid_gate(const SigmoidGate& op, int64_t row) {
    const float* gates = op.gates + row * op.width;
    const int64_t at = row * op.values.stride;
    if (op.values.format == Format::bf16) {
        gate_columns(static_cast<BFloat16*>(op.values.data) + at, gates, op.width);
    } else {
        gate_columns(static_cast<float*>(op.values.data) + at, gates, op.width);
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
