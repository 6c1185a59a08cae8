// Group: the queries that a block computes together.
#pragma once

#include <cstdint>

#include "cuda/attention/attention_span.cuh"
#include "cuda/attention/kv_block.cuh"

namespace outrider::cuda {

/// Multiplication by this inverse replaces a slow division: n / divisor = n * inverse >> kQuotientBits, for n
/// below 2^16 / divisor.
constexpr int kQuotientBits = 16;
__device__ inline int inverse_of(int divisor) {
    return ((1 << kQuotientBits) + divisor - 1) / divisor;
}

/// Consecutive rows of one sequence, and query heads that share keys and values.
struct Group {
    int first_row;
    int position;  // of the first row, or its end
    int stored;    // positions that were certainly stored before the pass
    int rows;
    int first_head;
    int heads;
    int kv_head;
    int inverse_heads;
    Range some;            // positions that at least one row attends to
    Range common;          // positions that all rows attend to
    const int32_t* table;  // block table of the sequence

    __device__ int queries() const { return rows * heads; }
    __device__ int row_of(int query) const { return query * inverse_heads >> kQuotientBits; }
    __device__ int64_t row(int query) const { return int64_t{first_row} + row_of(query); }
    __device__ int head(int query) const { return first_head + query - row_of(query) * heads; }
    __device__ int position_of(int query) const { return position + row_of(query); }
    __device__ int last() const { return position + rows - 1; }
    /// Whether some row attends to some position of the chunk.
    __device__ bool reads(int chunk) const { return some.meets(chunk * kBlockSize, kBlockSize); }
    /// Whether all rows attend to all positions of the chunk.
    __device__ bool reads_all(int chunk) const {
        return common.has(chunk * kBlockSize) && common.has((chunk + 1) * kBlockSize - 1);
    }
};

/// The initial state of a softmax: the head's sink, if there are sinks.
__device__ inline Softmax first_softmax(const Attention& op, int head) {
    return op.sinks ? Softmax{op.sinks[head], 1.0f} : empty_softmax();
}

__device__ inline KvBlock block_of(const Attention& op, const Group& group, int chunk) {
    return find_block(op.cache, group.table[chunk], group.kv_head);
}

/// Divides rows and heads into groups of up to `rows` and `heads`. Groups end at absolute multiples of `rows`
/// positions, so that each row can tell by itself whether it begins one. A row with an end is a group of its own.
struct Grouping {
    int rows;
    int heads;
    int heads_each;   // query heads per KV head
    int groups_each;  // groups of the heads of one KV head
    int head_groups;  // groups of all heads
    uint32_t inverse_rows;

    static Grouping of(const Attention& op, int rows, int heads) {
        const int each = op.num_heads / op.cache.num_kv_heads;
        const int groups = (each + heads - 1) / heads;
        const uint32_t inverse = rows > 1 ? 0xFFFF'FFFFu / static_cast<uint32_t>(rows) + 1 : 0;
        return {rows, heads, each, groups, op.cache.num_kv_heads * groups, inverse};
    }

    /// The group that `row` begins, without heads yet; it has no rows if `row` begins none.
    __device__ Group find(const Attention& op, int row) const {
        Group group{};
        group.first_row = row;
        group.position = op.places.positions[row];
        if (group.position == kInactive || (row > 0 && continues(op, row))) {
            return group;
        }
        group.rows = 1;
        group.stored = group.position - row;
        group.table = table_of(op.places, row);
        if (op.places.ends) {
            group.position = op.places.ends[row];
        }
        while (row + group.rows < op.places.rows && continues(op, row + group.rows)) {
            ++group.rows;
        }
        return group;
    }

    __device__ void choose_heads(const Attention& op, int head_group, Group& group) const {
        group.kv_head = head_group / groups_each;
        const int skipped = (head_group - group.kv_head * groups_each) * heads;
        group.first_head = group.kv_head * heads_each + skipped;
        group.heads = smaller_of(heads_each - skipped, heads);
        group.inverse_heads = inverse_of(group.heads);
        group.some = {first_position(op, group.position), group.last()};
        group.common = {first_position(op, group.last()), group.position};
    }

    /// Whether a position is a multiple of `rows`; by a multiplication, for positions below 2^26.
    __device__ bool is_multiple(int position) const {
        const auto quotient =
            static_cast<int>(uint64_t{static_cast<uint32_t>(position)} * inverse_rows >> 32);
        return rows == 1 || quotient * rows == position;
    }

    __device__ bool continues(const Attention& op, int row) const {
        const int position = op.places.positions[row];
        return !op.places.ends && !is_multiple(position) && position == op.places.positions[row - 1] + 1 &&
               op.places.sequences[row] == op.places.sequences[row - 1];
    }
};

}  // namespace outrider::cuda
