// AdvanceStates: puts a pass's tokens into its sequences' states one after another, in the order of the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/primitives/copies.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/reduce.cuh"
#include "cuda/recurrence/state_tokens.cuh"
#include "cuda/values/bounds.cuh"

namespace outrider::cuda {

constexpr int kQuarters = 4;  // partial sums over a state's rows

/// A block has 32 columns of one head of one sequence. Four lanes share a column: each keeps a quarter of its rows in
/// kRows registers. Tokens are copied to shared memory in sets; one is computed while the next is on its way.
template <int kRows>
struct AdvanceStates {
    static constexpr int kThreads = 128;
    static constexpr int kBlocksPerMultiprocessor = kRows > 32 ? 2 : 4;
    static constexpr int kColumns = kThreads / kQuarters;
    static constexpr int kTokens = 8;  // of a set
    static constexpr int kCopyFloats = kCopyBytes / sizeof(float);
    static constexpr bool kIsReferenced = true;

    /// Quarters lie apart by a copy, so that the four lanes of a column read different banks.
    struct Token {
        float query[kQuarters][kRows + 4];
        float key[kQuarters][kRows + 4];
        float values[kColumns];
        float gates[kGateFloats];  // rate and decay
    };
    struct Shared {
        Token tokens[2][kTokens];
    };

    DeltaRule op;

    __host__ __device__ int groups() const { return op.shape.value_dim / kColumns; }
    __host__ __device__ int64_t blocks_each() const { return int64_t{op.shape.value_heads} * groups(); }
    __host__ __device__ int64_t blocks() const { return op.sequences * blocks_each(); }

    __device__ void operator()(const Block& block) const {
        const StateTokens tokens(op, static_cast<int>(block.index / blocks_each()));
        if (!tokens.has_rows()) {
            return;
        }
        auto& shared = *reinterpret_cast<Shared*>(block.shared);
        clear(block, shared);
        const int first = tokens.place().position;
        begin_set(block, tokens, first, shared.tokens[0]);
        float state[kRows];
        load(block, tokens, state);
        write_ring(block, tokens);
        int position = first;
        for (int set = 0; position < tokens.end(); ++set) {
            wait_for_copies<0>();
            block.synchronize();  // the set is there, and the other one has been read
            begin_set(block, tokens, position + kTokens, shared.tokens[1 - set % 2]);
            for (int token = 0; token < kTokens && position < tokens.end(); ++token, ++position) {
                store_where_due(block, tokens, position, state);
                step(block, tokens, position, shared.tokens[set % 2][token], state);
            }
        }
        store_where_due(block, tokens, position, state);
    }

    __device__ int within(const Block& block) const { return static_cast<int>(block.index % blocks_each()); }
    __device__ int head(const Block& block) const { return within(block) / groups(); }
    __device__ int first_column(const Block& block) const { return within(block) % groups() * kColumns; }
    __device__ static int own_column(const Block& block) { return block.thread / kQuarters; }
    __device__ static int own_quarter(const Block& block) { return block.thread % kQuarters; }

    /// Rows beyond those of a quarter count as zero.
    __device__ void clear(const Block& block, Shared& shared) const {
        auto* values = reinterpret_cast<float*>(&shared);
        for (int i = block.thread; i < static_cast<int>(sizeof(Shared) / sizeof(float)); i += kThreads) {
            values[i] = 0.0f;
        }
        block.synchronize();
    }

    /// Starts the copies of the tokens from a position on.
    __device__ void begin_set(const Block& block, const StateTokens& tokens, int position,
                              Token (&to)[kTokens]) const {
        const int count = smaller_of(kTokens, tokens.end() - position);
        const int key_copies = op.shape.key_dim / kCopyFloats;
        const int copies = 2 * key_copies + kColumns / kCopyFloats + 1;
        for (int i = block.thread; i < count * copies; i += kThreads) {
            begin_copy_of(block, tokens.prepared(position + i / copies), i % copies, key_copies,
                          to[i / copies]);
        }
        close_copies();
    }

    __device__ void begin_copy_of(const Block& block, const float* from, int copy, int key_copies,
                                  Token& to) const {
        const DeltaShape& shape = op.shape;
        const int value_copies = kColumns / kCopyFloats;
        if (copy < 2 * key_copies) {
            const int64_t key_head = int64_t{head(block)} * shape.key_heads / shape.value_heads;
            const bool is_key = copy >= key_copies;
            const int row = (is_key ? copy - key_copies : copy) * kCopyFloats;
            const int quarter = row / quarter_rows();
            float* const place = (is_key ? to.key : to.query)[quarter] + row % quarter_rows();
            begin(place, from + (is_key ? shape.key_size() : 0) + key_head * shape.key_dim + row);
        } else if (copy < 2 * key_copies + value_copies) {
            const int column = (copy - 2 * key_copies) * kCopyFloats;
            begin(to.values + column, from + 2 * shape.key_size() + int64_t{head(block)} * shape.value_dim +
                                          first_column(block) + column);
        } else {
            begin(to.gates, from + shape.channels() + int64_t{head(block)} * kGateFloats);
        }
    }

    __device__ static void begin(float* to, const float* from) {
        begin_copy<false>(reinterpret_cast<char*>(to), from);
    }

    __device__ int quarter_rows() const { return op.shape.key_dim / kQuarters; }

    /// This lane's first value of the state in a slot; the others follow at distances of value_dim.
    __device__ float* own_values(const Block& block, const StateTokens& tokens, int slot) const {
        return tokens.state(slot, head(block)) +
               int64_t{own_quarter(block)} * quarter_rows() * op.shape.value_dim + first_column(block) +
               own_column(block);
    }

    __device__ void load(const Block& block, const StateTokens& tokens, float (&state)[kRows]) const {
        const float* from = own_values(block, tokens, tokens.place().slot);
        const bool is_new = tokens.place().position == 0;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            state[i] = is_new || i >= quarter_rows() ? 0.0f : from[i * int64_t{op.shape.value_dim}];
        }
    }

    /// Stores the state, if this is the position up to which it is kept or certain.
    __device__ void store_where_due(const Block& block, const StateTokens& tokens, int position,
                                    const float (&state)[kRows]) const {
        const StatePlace& place = tokens.place();
        if (place.kept_slot >= 0 && position == place.kept_position) {
            store(own_values(block, tokens, place.kept_slot), state);
        }
        if (position == place.certain) {
            store(own_values(block, tokens, place.slot), state);
        }
    }

    __device__ void store(float* to, const float (&state)[kRows]) const {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            if (i < quarter_rows()) {
                to[i * int64_t{op.shape.value_dim}] = state[i];
            }
        }
    }

    /// Updates the columns by one token, and writes their outputs if its row is in the pass.
    __device__ void step(const Block& block, const StateTokens& tokens, int position, const Token& token,
                         float (&state)[kRows]) const {
        const float* key = token.key[own_quarter(block)];
        const float* query = token.query[own_quarter(block)];
        const float rate = token.gates[0];
        const float decay = token.gates[1];
        float before = 0.0f;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            state[i] = state[i] * decay;
            before = fmaf(state[i], key[i], before);
        }
        const float update = (token.values[own_column(block)] - reduce_warp<kQuarters>(before, Sum())) * rate;
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            state[i] = fmaf(key[i], update, state[i]);
            sum = fmaf(state[i], query[i], sum);
        }
        sum = reduce_warp<kQuarters>(sum, Sum());
        if (position >= tokens.start() && own_quarter(block) == 0) {
            op.out[tokens.row_of(position) * op.shape.value_size() +
                   int64_t{head(block)} * op.shape.value_dim + first_column(block) + own_column(block)] = sum;
        }
    }

    /// A thread copies some columns of the rows that the ring keeps: first, into the kept slot, the rows that a
    /// convolution reads next there, and then those of the pass. No block reads the ring meanwhile.
    __device__ void write_ring(const Block& block, const StateTokens& tokens) const {
        const StatePlace& place = tokens.place();
        const int64_t stride = blocks_each() * kThreads;
        for (int64_t column = int64_t{within(block)} * kThreads + block.thread;
             column < op.shape.ring_width(); column += stride) {
            if (place.kept_slot >= 0) {
                const int oldest = place.kept_position - op.shape.taps + 1;
                for (int position = larger_of(0, oldest); position < place.kept_position; ++position) {
                    tokens.ring_row(place.kept_slot, position)[column] = kept_value(tokens, position, column);
                }
            }
            const int replaced = tokens.end() - op.ring_rows;  // by later rows of the pass
            for (int position = larger_of(tokens.start(), replaced); position < tokens.end(); ++position) {
                tokens.ring_row(place.slot, position)[column] = kept_value(tokens, position, column);
            }
        }
    }

    __device__ float kept_value(const StateTokens& tokens, int position, int64_t column) const {
        const int64_t gate = column - op.shape.channels();
        if (position < tokens.start() || gate < 0) {
            return tokens.channels(position)[column];
        }
        const int heads = op.shape.value_heads;
        const float* gates = tokens.prepared(position) + op.shape.channels();
        return gate < heads ? gates[gate * kGateFloats] : gates[(gate - heads) * kGateFloats + 1];
    }
};

}  // namespace outrider::cuda
