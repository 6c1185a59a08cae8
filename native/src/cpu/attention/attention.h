// Paged attention with a running softmax (Milakov, Gimelshein, arXiv 1805.02867), chunk by chunk.
//
// A chunk is one KV block, so chunks begin at absolute multiples of kBlockSize whatever the window. Several
// queries (the heads of a group, and neighbouring rows of one sequence) are computed side by side to share
// the loads of a chunk, and more of them in turn while the chunk is in the L1 cache. Each query keeps its own
// sequence of operations, which depends only on its own position.
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
        int64_t dim = 0;
        do {
            const T* keys = block.keys + dim * kBlockSize + slot;
            block.fetch_ahead(keys);
            const Vec left_keys = load(keys);
            const Vec right_keys = load(keys + kLanes);
            OUTRIDER_UNROLLED
            for (int query = 0; query < kCount; ++query) {
                const Vec value = splat(queries[query].values[dim]);
                left[query] = multiply_add(value, left_keys, left[query]);
                right[query] = multiply_add(value, right_keys, right[query]);
            }
        } while (++dim < block.head_dim);
        OUTRIDER_UNROLLED
        for (int query = 0; query < kCount; ++query) {
            store_scores(queries[query].weights + slot, left[query], block, slot);
            store_scores(queries[query].weights + slot + kLanes, right[query], block, slot + kLanes);
        }
    }
}

/// sums += the products of queries and one row of keys, from one dimension to another.
template <int kCount, typename T>
OUTRIDER_INLINE void add_products(Vec* sums, const Query* queries, const LatentBlock<T>& block, const T* row,
                                  int64_t dim, int64_t end) {
    do {
        block.fetch_ahead(row + dim);
        const Vec keys = load(row + dim);
        OUTRIDER_UNROLLED
        for (int query = 0; query < kCount; ++query) {
            sums[query] = multiply_add(load(queries[query].values + dim), keys, sums[query]);
        }
    } while ((dim += kLanes) < end);
}

/// The score of a latent key is that of the latent vector plus that of what turns, which may have another scale.
template <int kCount, typename T>
inline void score_chunk(Query* queries, const LatentBlock<T>& block) {
    for (int64_t slot = 0; slot < kBlockSize; ++slot) {
        const T* row = block.values + slot * block.value_stride;
        Vec sums[kCount] = {};
        add_products<kCount>(sums, queries, block, row, 0, block.value_width);
        if constexpr (kHasScales<T>) {
            OUTRIDER_UNROLLED
            for (int query = 0; query < kCount; ++query) {
                sums[query] = sums[query] * block.value_scales[slot];
            }
            Vec turning[kCount] = {};
            add_products<kCount>(turning, queries, block, row, block.value_width, block.value_stride);
            OUTRIDER_UNROLLED
            for (int query = 0; query < kCount; ++query) {
                sums[query] = multiply_add(turning[query], splat(block.turn_scales[slot]), sums[query]);
            }
        } else {
            add_products<kCount>(sums, queries, block, row, block.value_width, block.value_stride);
        }
        for (int query = 0; query < kCount; ++query) {
            queries[query].weights[slot] = sum_lanes(sums[query]);
        }
    }
}

/// total += weights[low ... high - 1] * values, in the order of the slots, for kVectors vectors of
/// dimensions. There must be at least one slot.
template <int kCount, int kVectors, typename Block>
OUTRIDER_INLINE void add_dimensions(Query* queries, const Block& block, int64_t dim, int64_t low,
                                    int64_t high) {
    Vec totals[kCount][kVectors];
    OUTRIDER_UNROLLED
    for (int query = 0; query < kCount; ++query) {
        OUTRIDER_UNROLLED
        for (int vector = 0; vector < kVectors; ++vector) {
            totals[query][vector] = load(queries[query].total + dim + vector * kLanes);
        }
    }
    int64_t slot = low;
    do {
        const typename Block::Number* from = block.values + slot * block.value_stride + dim;
        block.fetch_ahead(from);
        Vec values[kVectors];
        OUTRIDER_UNROLLED
        for (int vector = 0; vector < kVectors; ++vector) {
            values[vector] = load(from + vector * kLanes);
        }
        OUTRIDER_UNROLLED
        for (int query = 0; query < kCount; ++query) {
            const Vec weight = splat(queries[query].weights[slot]);
            OUTRIDER_UNROLLED
            for (int vector = 0; vector < kVectors; ++vector) {
                totals[query][vector] = multiply_add(weight, values[vector], totals[query][vector]);
            }
        }
    } while (++slot < high);
    OUTRIDER_UNROLLED
    for (int query = 0; query < kCount; ++query) {
        OUTRIDER_UNROLLED
        for (int vector = 0; vector < kVectors; ++vector) {
            store(queries[query].total + dim + vector * kLanes, totals[query][vector]);
        }
    }
}

template <int kCount, typename Block>
inline void add_values(Query* queries, const Block& block, int64_t low, int64_t high) {
    if (low >= high) {
        return;
    }
    int64_t dim = 0;
    for (; dim + kPair <= block.value_width; dim += kPair) {
        add_dimensions<kCount, 2>(queries, block, dim, low, high);
    }
    if (dim < block.value_width) {
        add_dimensions<kCount, 1>(queries, block, dim, low, high);
    }
}

/// Reads the slots that all queries attend to once for all of them; the slots before and after that only some
/// attend to are read for each query alone.
template <int kCount, typename Block>
inline void add_chunk(Query* queries, const Block& block) {
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
    const int64_t width = op.cache.value_dim();
    T* out = static_cast<T*>(op.out.data) + query.row * op.out.stride + query.head * width;
    for (int64_t dim = 0; dim < width; dim += kLanes) {
        store_first(out + dim, load(query.total + dim) / query.sum, width - dim);
    }
}

/// One chunk's part of the softmax of kCount queries of one sequence and one group of heads.
template <int kCount, typename Block>
inline void attend_chunk(Query* queries, float softcap, const Block& block, int64_t first_slot) {
    bool any = false;
    for (int index = 0; index < kCount; ++index) {
        Query& query = queries[index];
        query.low = larger(query.first_position - first_slot, 0);
        query.high = smaller(query.last_position + 1 - first_slot, kBlockSize);
        any = any || query.attends();
    }
    if (any) {
        score_chunk<kCount>(queries, block);
        weigh_chunk<kCount>(queries, softcap, block);
        add_chunk<kCount>(queries, block);
    }
}

/// The queries of one group of heads, for rows of one sequence; computes up to kQueriesPerPart at a time.
class PartQueries {
  public:
    PartQueries(const Attention& op, int64_t kv_head) : op_(op), kv_head_(kv_head) {}

    void add(int64_t row, int64_t head) {
        const int64_t head_dim = op_.cache.head_dim;
        const int64_t position = op_.places.ends ? op_.places.ends[row] : op_.places.positions[row];
        Query& query = queries_[count_];
        __builtin_memcpy(query.values, op_.qkv + row * op_.qkv_stride + head * head_dim,
                         head_dim * sizeof(float));
        query.first_position = op_.window > 0 ? larger(position - op_.window + 1, 0) : 0;
        query.last_position = position;
        query.row = row;
        query.head = head;
        query.maximum = op_.sinks ? op_.sinks[head] : -__builtin_inff();
        query.sum = op_.sinks ? 1.0f : 0.0f;
        for (int64_t dim = 0; dim < op_.cache.value_dim(); dim += kLanes) {
            store(query.total + dim, Vec{});
        }
        first_position_ = count_ == 0 ? query.first_position : smaller(first_position_, query.first_position);
        last_position_ = count_ == 0 ? position : larger(last_position_, position);
        if (++count_ == kQueriesPerPart) {
            flush();
        }
    }

    void flush() {
        if (count_ == 0) {
            return;
        }
        switch (op_.cache.format) {
            case KvFormat::f32:
                attend<float>();
                break;
            case KvFormat::bf16:
                attend<BFloat16>();
                break;
            default:
                attend<int8_t>();
        }
        for (int64_t query = 0; query < count_; ++query) {
            if (op_.out.format == Format::bf16) {
                write_output<BFloat16>(queries_[query], op_);
            } else {
                write_output<float>(queries_[query], op_);
            }
        }
        count_ = 0;
    }

  private:
    template <typename T>
    void attend() {
        if (op_.cache.latent_rank > 0) {
            attend([&](int64_t block) { return find_latents<T>(op_.cache, block); });
        } else {
            attend([&](int64_t block) { return find_block<T>(op_.cache, block, kv_head_); });
        }
    }

    /// Processes chunk by chunk; all queries, at most kMaxQueries side by side, use a chunk while it is in
    /// the cache.
    template <typename Find>
    void attend(const Find& find) {
        const int64_t sequence = op_.places.sequences[queries_[0].row];
        const int32_t* table = op_.places.block_tables + sequence * op_.places.max_blocks;
        const int64_t last = last_position_ / kBlockSize;
        const int64_t groups = (count_ + kMaxQueries - 1) / kMaxQueries;
        for (int64_t chunk = first_position_ / kBlockSize; chunk <= last; ++chunk) {
            auto block = find(table[chunk]);
            if (chunk < last) {
                block.find_ahead(find(table[chunk + 1]));
            }
            for (int64_t group = 0; group < groups; ++group) {
                const int64_t first = count_ * group / groups;
                with_count<kMaxQueries>(count_ * (group + 1) / groups - first, [&](auto count) {
                    attend_chunk<count.value>(queries_ + first, op_.softcap, block, chunk * kBlockSize);
                });
                block.ahead = 0;
            }
        }
    }

    const Attention& op_;
    int64_t kv_head_;
    int64_t count_ = 0;
    int64_t first_position_ = 0;  // over all queries
    int64_t last_position_ = 0;
    Query queries_[kQueriesPerPart];
};

inline void attention(const Attention& op, const AttentionPart& part) {
    PartQueries queries(op, part.kv_head);
    for (int64_t row = part.first_row; row < part.end_row; ++row) {
        for (int64_t head = part.first_head; head < part.end_head; ++head) {
            queries.add(row, head);
        }
    }
    queries.flush();
}

}  // namespace outrider::cpu::OUTRIDER_ISA
