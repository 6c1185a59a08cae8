// WorkList: what the blocks of an attention have to do, cut so that all have about as much of it, however
// different the lengths of their rows' contexts are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/attention/attention_group.cuh"
#include "cuda/primitives/reduce.cuh"

namespace outrider::cuda {

/// Where the results of parts are kept, in op.scratch: first a counter for each, all zero whenever no
/// attention runs, then the parts.
constexpr int64_t kMostParts = 1 << 12;  // times rows

/// A group's spans: all of them, or one part of several, which are stretches or else spans.
struct Work {
    Group group;
    int first;  // span
    int last;
    int64_t first_part;  // the place of the group's first part, in rows
    int part;            // of the group's
    int parts;           // 1: all spans are one block's
    bool is_span;

    /// The stretches of the group; where parts are spans, their results come behind those.
    __device__ int stretches() const { return last / kStretch - first / kStretch + 1; }
    __device__ int first_stretch_part() const { return is_span ? parts : 0; }
    __device__ int own_stretch() const { return (first + part) / kStretch - first / kStretch; }
    /// The spans of the part.
    __device__ int begin() const {
        return parts == 1 ? first : is_span ? first + part : larger_of(first, stretch_begin(part));
    }
    __device__ int end() const {
        return parts == 1 ? last + 1 : is_span ? begin() + 1 : smaller_of(last + 1, stretch_begin(part + 1));
    }
    __device__ int stretch_begin(int stretch) const { return (first / kStretch + stretch) * kStretch; }
};

/// Every block makes the same list of the rows' places, which takes less time than one more launch.
template <int kThreads>
class WorkList {
  public:
    static constexpr int kShelves = 64;  // of rows: few, since a block's memory is for other things

    /// `most_parts`, times rows, have places. Every thread of the block calls.
    __device__ WorkList(const Block& block, const Attention& operation, const Grouping& groups,
                        int64_t num_blocks, int64_t most_parts)
        : op_(operation),
          grouping_(groups),
          most_parts_(most_parts),
          shared_(*reinterpret_cast<Shared*>(block.shared)) {
        const int head_groups = grouping_.num_head_groups(op_);
        int64_t spans = 0;
        const int shelf = smaller_of(block.thread, kShelves);  // the last has no rows
        for_each_group(shelf, [&](const Work& all) { spans += all.last - all.first + 1; });
        int64_t total = 0;
        sum_before<kThreads>(block, spans, shared_.sums, &total);
        share_ = (total * head_groups + num_blocks - 1) / num_blocks;
        int64_t parts = 0;
        for_each_group(shelf, [&](const Work& all) { parts += places_of(cut(all)); });
        parts = sum_before<kThreads>(block, parts, shared_.sums, &total);
        if (shelf < kShelves) {
            shared_.parts_before[shelf] = parts;
        }
        int64_t works = 0;
        for_each_cut_group(shelf, parts, [&](const Work& all) {
            works += all.parts;
            return false;
        });
        works = sum_before<kThreads>(block, works, shared_.sums, &total);
        if (shelf < kShelves) {
            shared_.works_before[shelf] = works;
        }
        size_ = total * head_groups;
        block.synchronize();
    }

    __device__ int64_t size() const { return size_; }

    /// Puts a work where the block's threads share it. Every one of them calls.
    __device__ const Work& at(const Block& block, int64_t index) const {
        if (block.thread == 0) {
            shared_.work = find(index);
        }
        block.synchronize();
        return shared_.work;
    }

    /// Shared by the block's threads, for whatever they like.
    __device__ int& flag() const { return shared_.flag; }

    static constexpr size_t bytes() { return sizeof(Shared); }

  private:
    struct Shared {
        Work work;
        int64_t sums[kThreads / kWarp];
        int64_t parts_before[kShelves];  // those of a shelf's groups
        int64_t works_before[kShelves];
        alignas(16) int flag;
    };

    /// Works come group by group, a group's head by head.
    __device__ Work find(int64_t index) const {
        const int head_groups = grouping_.num_head_groups(op_);
        int low = 0;
        for (int step = kShelves / 2; step > 0; step /= 2) {
            low += shared_.works_before[low + step] * head_groups <= index ? step : 0;
        }
        int64_t rest = index - shared_.works_before[low] * head_groups;
        Work found{};
        for_each_cut_group(low, shared_.parts_before[low], [&](const Work& all) {
            const int64_t works = int64_t{all.parts} * head_groups;
            if (rest >= works) {
                rest -= works;
                return false;
            }
            found = all;
            return true;
        });
        found.part = static_cast<int>(rest % found.parts);
        grouping_.choose_heads(op_, static_cast<int>(rest / found.parts), found.group);
        return found;
    }

    /// Calls `body` for the groups that begin in a shelf's rows.
    template <typename Body>
    __device__ void for_each_group(int shelf, const Body& body) const {
        const int rows_each = (op_.places.rows + kShelves - 1) / kShelves;
        const int end = smaller_of((shelf + 1) * rows_each, op_.places.rows);
#pragma unroll 1
        for (int row = shelf * rows_each; row < end; ++row) {
            const Group group = grouping_.find(op_, row);
            if (group.rows > 0) {
                const int first = first_position(op_, group.position) / kSpan;
                body(Work{group, first, group.last() / kSpan, 0, 0, 1, false});
            }
        }
    }

    /// The same of groups as they are cut; ends when `body` returns true.
    template <typename Body>
    __device__ void for_each_cut_group(int shelf, int64_t place, const Body& body) const {
        bool is_done = false;
        for_each_group(shelf, [&](const Work& all) {
            Work one = cut(all);
            one.first_part = place;
            place += places_of(one);
            if (place > most_parts_) {
                one.parts = 1;
            }
            is_done = is_done || body(one);
        });
    }

    /// A group stays whole that takes no more than half of what a block has to do.
    __device__ Work cut(const Work& all) const {
        Work one = all;
        const int spans = all.last - all.first + 1;
        one.is_span = share_ < kStretch;
        one.parts = spans < 2 || 2 * spans <= share_ ? 1 : one.is_span ? spans : all.stretches();
        return one;
    }

    __device__ static int64_t places_of(const Work& one) {
        const int parts = one.parts + (one.is_span ? one.stretches() : 0);
        return one.parts > 1 ? int64_t{parts} * one.group.rows : 0;
    }

    const Attention& op_;
    const Grouping& grouping_;
    int64_t most_parts_;
    Shared& shared_;
    int64_t share_ = 0;  // spans of a block
    int64_t size_ = 0;
};

}  // namespace outrider::cuda
