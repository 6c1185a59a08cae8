// Paged attention with a running softmax (Milakov, Gimelshein, arXiv 1805.02867), chunk by chunk.
//
// A chunk is one KV block, so chunks begin at absolute multiples of kBlockSize whatever the window. Several
// queries (the heads of a group, and neighbouring rows of one sequence) go through the chunks side by side to
// share the loads; each keeps its own chain of operations, which depends on its own position alone.
#pragma once

#include "cpu/attention/attention_part.h"
#include "cpu/attention/kv_block.h"
#include "cpu/attention/query.h"
#include "cpu/product/row_blocks.h"
#include "cpu/vec/vec.h"
#include "outrider/device/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

constexpr int kMaxQueries = RegisterBlocking::kQueries;
constexpr int kPair = 2 * kLanes;
static_assert(kBlockSize % kPair == 0, "a chunk is whole pairs of vectors");

template <typename T>
OUTRIDER_INLINE void store_scores(float* to, Vec scores, const KvBlock<T>& block, int64_t slot) {
    if constexpr (kHasScales<T>) {
        scores = scores * load(block.key_scales + slot);
    }
    store(to, scores);
}

template <int kCount, typename T>
inline void score_chunk(Query* queries, const KvBlock<T>& block) {
    for (int64_t slot = 0; slot < kBlockSize; slot += kPair) {
        Vec left[kCount] = {};
        Vec right[kCount] = {};
        for (int64_t dim = 0; dim < block.head_dim; ++dim) {
            const Vec left_keys = load(block.keys + dim * kBlockSize + slot);
            const Vec right_keys = load(block.keys + dim * kBlockSize + slot + kLanes);
            for (int query = 0; query < kCount; ++query) {
                const Vec value = splat(queries[query].values[dim]);
                left[query] = multiply_add(value, left_keys, left[query]);
                right[query] = multiply_add(value, right_keys, right[query]);
            }
        }
        for (int query = 0; query < kCount; ++query) {
            store_scores(queries[query].weights + slot, left[query], block, slot);
            store_scores(queries[query].weights + slot + kLanes, right[query], block, slot + kLanes);
        }
    }
}

/// total += weights[low ... high - 1] * values, in the order of the slots, for kVectors vectors of
/// dimensions.
template <int kCount, int kVectors, typename T>
OUTRIDER_INLINE void add_dimensions(Query* queries, const KvBlock<T>& block, int64_t dim, int64_t low,
                                    int64_t high) {
    Vec totals[kCount][kVectors];
    for (int query = 0; query < kCount; ++query) {
        for (int vector = 0; vector < kVectors; ++vector) {
            totals[query][vector] = load(queries[query].total + dim + vector * kLanes);
        }
    }
    for (int64_t slot = low; slot < high; ++slot) {
        for (int vector = 0; vector < kVectors; ++vector) {
            const Vec values = load(block.values + slot * block.value_stride + dim + vector * kLanes);
            for (int query = 0; query < kCount; ++query) {
                const Vec weight = splat(queries[query].weights[slot]);
                totals[query][vector] = multiply_add(weight, values, totals[query][vector]);
            }
        }
    }
    for (int query = 0; query < kCount; ++query) {
        for (int vector = 0; vector < kVectors; ++vector) {
            store(queries[query].total + dim + vector * kLanes, totals[query][vector]);
        }
    }
}

template <int kCount, typename T>
inline void add_values(Query* queries, const KvBlock<T>& block, int64_t low, int64_t high) {
    int64_t dim = 0;
    for (; dim + kPair <= block.value_stride; dim += kPair) {
        add_dimensions<kCount, 2>(queries, block, dim, low, high);
    }
    if (dim < block.value_stride) {
        add_dimensions<kCount, 1>(queries, block, dim, low, high);
    }
}

/// The slots that all queries attend to are read once for all; what one attends to alone comes before and
/// after them.
template <int kCount, typename T>
inline void add_chunk(Query* queries, const KvBlock<T>& block) {
    int64_t low = 0;
    int64_t high = kBlockSize;
    for (int query = 0; query < kCount; ++query) {
        low = larger(low, queries[query].low);
        high = smaller(high, queries[query].high);
    }
    if (low >= high) {
        for (int query = 0; query < kCount; ++query) {
            add_values<1>(queries + query, block, queries[query].low, queries[query].high);
        }
        return;
    }
    for (int query = 0; query < kCount; ++query) {
        add_values<1>(queries + query, block, queries[query].low, low);
    }
    add_values<kCount>(queries, block, low, high);
    for (int query = 0; query < kCount; ++query) {
        add_values<1>(queries + query, block, high, queries[query].high);
    }
}

template <typename T>
inline void write_output(const Query& query, const Attention& op) {
    const int64_t head_dim = op.cache.head_dim;
    T* out = static_cast<T*>(op.out.data) + query.row * op.out.stride + query.head * head_dim;
    for (int64_t dim = 0; dim < head_dim; dim += kLanes) {
        store_first(out + dim, load(query.total + dim) / query.sum, head_dim - dim);
    }
}

/// kCount queries of one sequence and one group of heads, over all their chunks.
template <int kCount, typename T>
inline void attend(Query* queries, const Attention& op, const int32_t* table, int64_t kv_head) {
    int64_t first_position = queries[0].first_position;
    int64_t last_position = queries[0].last_position;
    for (int query = 1; query < kCount; ++query) {
        first_position = smaller(first_position, queries[query].first_position);
        last_position = larger(last_position, queries[query].last_position);
    }
    for (int64_t chunk = first_position / kBlockSize; chunk <= last_position / kBlockSize; ++chunk) {
        const KvBlock<T> block = find_block<T>(op.cache, table[chunk], kv_head);
        score_chunk<kCount>(queries, block);
        for (int index = 0; index < kCount; ++index) {
            Query& query = queries[index];
            query.low = larger(query.first_position - chunk * kBlockSize, 0);
            query.high = smaller(query.last_position + 1 - chunk * kBlockSize, kBlockSize);
        }
        weigh_chunk<kCount>(queries, op.softcap, block);
        add_chunk<kCount>(queries, block);
    }
}

/// attend() with `count` as a constant of the compiler's.
template <typename T>
inline void attend_all(Query* queries, int count, const Attention& op, const int32_t* table,
                       int64_t kv_head) {
    with_count<kMaxQueries>(count,
                            [&](auto constant) { attend<constant.value, T>(queries, op, table, kv_head); });
}

/// The queries of one group of heads for neighbouring rows of one sequence, up to kMaxQueries at a time.
class QueryBlock {
  public:
    QueryBlock(const Attention& op, int64_t kv_head) : op_(op), kv_head_(kv_head) {}

    void add(int64_t row, int64_t head) {
        const int64_t head_dim = op_.cache.head_dim;
        const int64_t position = op_.places.positions[row];
        Query& query = queries_[count_];
        query.values = op_.qkv + (row * (op_.num_heads + 2 * op_.cache.num_kv_heads) + head) * head_dim;
        query.first_position = op_.window > 0 ? larger(position - op_.window + 1, 0) : 0;
        query.last_position = position;
        query.row = row;
        query.head = head;
        query.maximum = -__builtin_inff();
        query.sum = 0.0f;
        query.total = totals_[count_];
        for (int64_t dim = 0; dim < head_dim; dim += kLanes) {
            store(query.total + dim, Vec{});
        }
        if (++count_ == kMaxQueries) {
            flush();
        }
    }

    void flush() {
        if (count_ == 0) {
            return;
        }
        const int64_t sequence = op_.places.sequences[queries_[0].row];
        const int32_t* table = op_.places.block_tables + sequence * op_.places.max_blocks;
        switch (op_.cache.format) {
            case KvFormat::f32:
                attend_all<float>(queries_, count_, op_, table, kv_head_);
                break;
            case KvFormat::bf16:
                attend_all<BFloat16>(queries_, count_, op_, table, kv_head_);
                break;
            default:
                attend_all<int8_t>(queries_, count_, op_, table, kv_head_);
        }
        for (int query = 0; query < count_; ++query) {
            if (op_.out.format == Format::bf16) {
                write_output<BFloat16>(queries_[query], op_);
            } else {
                write_output<float>(queries_[query], op_);
            }
        }
        count_ = 0;
    }

  private:
    const Attention& op_;
    int64_t kv_head_;
    int count_ = 0;
    Query queries_[kMaxQueries];
    alignas(kCacheLine) float totals_[kMaxQueries][kMaxHeadDim];
};

inline void attention(const Attention& op, const AttentionPart& part) {
    QueryBlock block(op, part.kv_head);
    for (int64_t row = part.first_row; row < part.end_row; ++row) {
        if (row > part.first_row && op.places.sequences[row] != op.places.sequences[row - 1]) {
            block.flush();
        }
        for (int64_t head = part.first_head; head < part.end_head; ++head) {
            block.add(row, head);
        }
    }
    block.flush();
}

}  // namespace outrider::cpu::OUTRIDER_ISA
