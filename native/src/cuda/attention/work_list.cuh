// WorkList: the works of an attention's blocks, split so that all blocks have about the same amount of work,
// however different the lengths of the contexts are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/attention/attention_group.cuh"
#include "cuda/primitives/reduce.cuh"

namespace outrider::cuda {

/// The capacity for the results of parts in op.scratch: first a counter for each part, all zero while no
/// attention runs, then the parts.
constexpr int kMostParts = 1 << 12;  // counted in rows

/// A group's spans: all of them, or one of several parts; the parts are stretches or single spans.
struct Work {
    Group group;
    int first;  // first span
    int last;
    int first_part;  // place of the group's first part, counted in rows
    int part;        // index of this part
    int parts;       // 1: one block has all spans
    bool is_span;

    /// The number of stretches of the group; if parts are spans, the stretches' results follow those of the
    /// parts.
    __device__ int stretches() const { return last / kStretch - first / kStretch + 1; }
    __device__ int first_stretch_part() const { return is_span ? parts : 0; }
    __device__ int own_stretch() const { return (first + part) / kStretch - first / kStretch; }
    /// The first span of the part, and the one after its last.
    __device__ int begin() const {
        return parts == 1 ? first : is_span ? first + part : larger_of(first, stretch_begin(part));
    }
    __device__ int end() const {
        return parts == 1 ? last + 1 : is_span ? begin() + 1 : smaller_of(last + 1, stretch_begin(part + 1));
    }
    __device__ int stretch_begin(int stretch) const { return (first / kStretch + stretch) * kStretch; }
};

/// Every block computes the same list from the rows' places, which takes less time than another launch. Each
/// thread has a shelf of consecutive rows; if there are few rows, every warp computes the list by itself.
template <int kThreads>
class WorkList {
  public:
    /// Results of parts may take `most_parts` places, counted in rows. All threads of the block must call.
    __device__ WorkList(const Block& block, const Attention& operation, const Grouping& groups,
                        int num_blocks, int most_parts)
        : op_(operation),
          grouping_(groups),
          most_parts_(most_parts),
          shared_(*reinterpret_cast<Shared*>(block.shared)) {
        is_short_ = op_.places.rows <= kWarp;
        const int shelves = is_short_ ? kWarp : kThreads;
        const int shelf = is_short_ ? block.lane() : block.thread;
        const int rows_each = (op_.places.rows + shelves - 1) / shelves;
        const int first_row = smaller_of(shelf * rows_each, op_.places.rows);
        next_row_ = smaller_of(first_row + 1, op_.places.rows);
        end_row_ = smaller_of(first_row + rows_each, op_.places.rows);
        if (first_row < end_row_) {
            first_ = grouping_.find(op_, first_row);
        }
        int spans = 0;
        for_each_group([&](const Work& all) { spans += all.last - all.first + 1; });
        int total = 0;
        sum_before_shelf(block, spans, &total);
        share_ = share_of(total, num_blocks);
        int parts = 0;
        for_each_group([&](const Work& all) { parts += places_of(cut(all)); });
        parts_before_ = sum_before_shelf(block, parts, &total);
        for_each_cut_group([&](const Work& all) {
            works_ += all.parts;
            return false;
        });
        works_before_ = sum_before_shelf(block, works_, &total);
        size_ = total * grouping_.head_groups;
    }

    __device__ int size() const { return size_; }

    /// Puts a work into shared memory. All threads of the block must call.
    __device__ const Work& at(const Block& block, int index) const {
        const int rest = index - works_before_ * grouping_.head_groups;
        const bool is_asked = !is_short_ || block.warp() == 0;
        if (is_asked && rest >= 0 && rest < works_ * grouping_.head_groups) {
            shared_.work = find(rest);
        }
        block.synchronize();
        return shared_.work;
    }

    /// A shared variable for any use by the block's threads.
    __device__ int& flag() const { return shared_.flag; }

    static constexpr size_t bytes() { return sizeof(Shared); }

  private:
    struct Shared {
        alignas(16) Work work;
        int sums[kThreads / kWarp];
        alignas(16) int flag;
    };

    __device__ int sum_before_shelf(const Block& block, int value, int* total) const {
        if (is_short_) {
            const int before = sum_before_in_warp(block, value);
            *total = value;
            return before;
        }
        return sum_before<kThreads>(block, value, shared_.sums, total);
    }

    /// A block's share of the work, in spans. It is limited to the range of int, which affects speed only.
    __device__ int share_of(int spans, int num_blocks) const {
        constexpr int64_t kMost = 0x7FFF'FFFF;
        const int64_t all = int64_t{spans} * grouping_.head_groups + num_blocks - 1;
        return static_cast<int>(static_cast<uint32_t>(all < kMost ? all : kMost) /
                                static_cast<uint32_t>(num_blocks));
    }

    /// Finds a work of the shelf; works are ordered by group, and those of a group by head.
    __device__ Work find(int rest) const {
        Work found{};
        for_each_cut_group([&](const Work& all) {
            const int works = all.parts * grouping_.head_groups;
            if (rest >= works) {
                rest -= works;
                return false;
            }
            found = all;
            return true;
        });
        const int head_group = rest / found.parts;
        found.part = rest - head_group * found.parts;
        grouping_.choose_heads(op_, head_group, found.group);
        return found;
    }

    /// Calls `body` for the groups that begin in the shelf's rows; the group of the first row is known.
    template <typename Body>
    __device__ void for_each_group(const Body& body) const {
        Group group = first_;
#pragma unroll 1
        for (int row = next_row_;; ++row) {
            if (group.rows > 0) {
                const int first = first_position(op_, group.position) / kSpan;
                body(Work{group, first, group.last() / kSpan, 0, 0, 1, false});
            }
            if (row >= end_row_) {
                return;
            }
            group = grouping_.find(op_, row);
        }
    }

    /// The same for groups after they are cut; ends when `body` returns true.
    template <typename Body>
    __device__ void for_each_cut_group(const Body& body) const {
        bool is_done = false;
        int place = parts_before_;
        for_each_group([&](const Work& all) {
            Work one = cut(all);
            one.first_part = place;
            place += places_of(one);
            if (place > most_parts_) {
                one.parts = 1;
            }
            is_done = is_done || body(one);
        });
    }

    /// Cuts a group into parts, unless it takes at most half of a block's share.
    __device__ Work cut(const Work& all) const {
        Work one = all;
        const int spans = all.last - all.first + 1;
        one.is_span = share_ < kStretch;
        one.parts = spans < 2 || 2 * spans <= share_ ? 1 : one.is_span ? spans : all.stretches();
        return one;
    }

    __device__ static int places_of(const Work& one) {
        const int parts = one.parts + (one.is_span ? one.stretches() : 0);
        return one.parts > 1 ? parts * one.group.rows : 0;
    }

    const Attention& op_;
    const Grouping& grouping_;
    int most_parts_;
    Shared& shared_;
    bool is_short_;
    int next_row_;
    int end_row_;
    Group first_{};  // group of the first row
    int share_ = 0;  // spans per block
    int parts_before_ = 0;
    int works_before_ = 0;  // works before the shelf's, of one head
    int works_ = 0;
    int size_ = 0;
};

}  // namespace outrider::cuda
