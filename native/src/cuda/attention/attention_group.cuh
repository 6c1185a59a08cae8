// Group: the queries that one block attends with.
#pragma once

#include <cstdint>

#include "cuda/attention/attention_span.cuh"
#include "cuda/attention/kv_block.cuh"

namespace outrider::cuda {

/// Rows of one sequence behind one another, and heads that share keys and values.
struct Group {
    int first_row;
    int position;  // of the first row
    int rows;
    int first_head;
    int heads;
    int kv_head;

    __device__ int queries() const { return rows * heads; }
    __device__ int64_t row(int query) const { return int64_t{first_row} + query / heads; }
    __device__ int head(int query) const { return first_head + query % heads; }
    __device__ int position_of(int query) const { return position + query / heads; }
    __device__ int last() const { return position + rows - 1; }
    /// Some row attends to some position of the chunk.
    __device__ bool reads(const Attention& op, int chunk) const {
        return Range{first_position(op, position), last()}.meets(chunk * kBlockSize, kBlockSize);
    }
    /// All rows attend to all positions of the chunk.
    __device__ bool reads_all(const Attention& op, int chunk) const {
        const Range common{first_position(op, last()), position};
        return common.has(chunk * kBlockSize) && common.has((chunk + 1) * kBlockSize - 1);
    }
};

__device__ inline KvBlock block_of(const Attention& op, const Group& group, int chunk) {
    return find_block(op.cache, table_of(op.places, group.first_row)[chunk], group.kv_head);
}

/// How rows and heads fall into groups of up to so many. Groups end at absolute multiples of `rows`
/// positions, so that each row knows by itself whether it begins one.
struct Grouping {
    int rows;
    int heads;

    __host__ __device__ static int heads_each(const Attention& op) {
        return op.num_heads / op.cache.num_kv_heads;
    }
    __host__ __device__ int groups_each(const Attention& op) const {
        return (heads_each(op) + heads - 1) / heads;
    }
    __host__ __device__ int num_head_groups(const Attention& op) const {
        return op.cache.num_kv_heads * groups_each(op);
    }

    /// The group that `row` begins, of no heads yet; one without rows where it begins none.
    __device__ Group find(const Attention& op, int row) const {
        Group group{row, op.places.positions[row], 0, 0, 0, 0};
        if (group.position == kInactive || (row > 0 && continues(op, row))) {
            return group;
        }
        group.rows = 1;
        while (row + group.rows < op.places.rows && continues(op, row + group.rows)) {
            ++group.rows;
        }
        return group;
    }

    __device__ void choose_heads(const Attention& op, int head_group, Group& group) const {
        const int skipped = head_group % groups_each(op) * heads;
        group.kv_head = head_group / groups_each(op);
        group.first_head = group.kv_head * heads_each(op) + skipped;
        group.heads = smaller_of(heads_each(op) - skipped, heads);
    }

    __device__ bool continues(const Attention& op, int row) const {
        const int position = op.places.positions[row];
        return position % rows != 0 && position == op.places.positions[row - 1] + 1 &&
               op.places.sequences[row] == op.places.sequences[row - 1];
    }
};

}  // namespace outrider::cuda
