// LowRankTable: the updates that one launch computes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "outrider/device/host_device.h"
#include "outrider/device/low_rank.h"

namespace outrider::cuda {

/// As many as fit into the 4 KiB of kernel arguments of older GPUs.
constexpr int kMostUpdates = 40;

/// One of the updates.
struct LowRankEntry {
    LowRankWeight weight;
    const int32_t* rows;  // [count], device memory
    float* inner;         // [count, weight.rank]
    int count;
    int first_block;  // first block of the launch that computes it

    /// A row's index in `rows`; rows beyond the last one get the index of the last.
    OUTRIDER_HOST_DEVICE int64_t place(int row) const { return row < count ? row : count - 1; }
    OUTRIDER_HOST_DEVICE int64_t row(int row) const { return rows[place(row)]; }
};

/// Passed to the kernels by value.
struct LowRankTable {
    Activations input;
    float* out;
    int64_t out_stride;
    int count = 0;
    LowRankEntry entries[kMostUpdates];

    /// Starts without updates.
    explicit LowRankTable(const LowRank& op) : input(op.input), out(op.out), out_stride(op.out_stride) {}

    void add(const LowRankUpdate& update) {
        entries[count++] = {*update.weight, update.rows, update.inner, update.count, 0};
    }

    /// The greatest number of rows of any update.
    int most_rows() const {
        return std::max_element(entries, entries + count,
                                [](const auto& left, const auto& right) { return left.count < right.count; })
            ->count;
    }

    /// Assigns each update its blocks of the launch, `blocks_of` of them, and returns their total.
    template <typename BlocksOf>
    int64_t share_blocks(const BlocksOf& blocks_of) {
        int blocks = 0;
        for (LowRankEntry& entry : std::span(entries, static_cast<size_t>(count))) {
            entry.first_block = blocks;
            blocks += blocks_of(entry);
        }
        return blocks;
    }

    /// The index of the update that a block of the launch computes.
    OUTRIDER_HOST_DEVICE int entry_of(int64_t block) const {
        int index = count - 1;
        while (entries[index].first_block > block) {
            --index;
        }
        return index;
    }
};
static_assert(sizeof(LowRankTable) <= 4000, "there is room for what a kernel has beside it");

}  // namespace outrider::cuda
