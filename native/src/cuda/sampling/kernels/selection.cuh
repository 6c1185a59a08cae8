// Selection: finds the last of a row's best candidates whose cumulative weight reaches a given share, by
// radix selection. The order of the additions does not matter, since weights are integers.
#pragma once

#include <cstdint>

#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/reduce.cuh"
#include "cuda/sampling/kernels/draw_batch.h"
#include "sampling/mass.h"
#include "sampling/order_key.h"

namespace outrider::cuda {

constexpr int kIdBits = 64 - kMassBits;
constexpr int kValueBits = 32;
constexpr int kDigitBits = 64 - kValueBits - kIdBits;

__device__ inline int64_t id_of_place(uint64_t place) {
    return static_cast<int64_t>(place & ((uint64_t{1} << kIdBits) - 1));
}

/// A row's tokens in the order of candidates.
struct Candidates {
    const float* values;
    int64_t vocab_size;
    float best;                        // roughly the greatest value
    const uint64_t* masses = nullptr;  // null: each token weighs one
    uint64_t last = ~uint64_t{};       // place of the last candidate to consider

    /// Unique; the best candidate has the lowest place; negative zero counts as zero. The highest digit, the
    /// distance from the best, adds no information to the value, but spreads tokens over all digits.
    __device__ uint64_t place(int64_t id) const {
        const float value = values[id] + 0.0f;
        const float distance = (best - value) * 32.0f;
        constexpr float kFarthest = (1 << kDigitBits) - 1;
        const auto digit = static_cast<uint64_t>(Less()(Greater()(distance, 0.0f), kFarthest));
        const uint32_t worse = 0x7FFFFFFFu - static_cast<uint32_t>(order_key(value));
        return (digit << kValueBits | worse) << kIdBits | static_cast<uint64_t>(id);
    }

    __device__ bool exists(int64_t id, uint64_t place) const {
        return values[id] > -kInfinity && place <= last;
    }
    __device__ uint64_t weight(int64_t id) const { return masses != nullptr ? masses[id] : 1; }
};

/// The first `count` of candidates that weigh one each.
struct AtMost {
    int64_t count;

    __device__ uint64_t operator()(uint64_t total) const {
        return Less()(static_cast<uint64_t>(count), total);
    }
};

/// Selects with all threads of a block on one row, digit by digit from the highest.
struct Selection {
    static constexpr int kThreads = 1 << kDigitBits;

    struct Shared {
        uint64_t weights[kThreads];  // by digit
        uint64_t sums[kThreads / kWarp];
        uint64_t digit;
        uint64_t before;  // weight of all lower digits
    };

    /// The place at which the cumulative weight, from the best candidate on, reaches wanted(total weight),
    /// which must be in 1 ... total weight.
    template <typename Tokens, typename Wanted>
    static __device__ uint64_t last_place(const Block& block, const Tokens& candidates,
                                          const Wanted& wanted) {
        auto* shared = reinterpret_cast<Shared*>(block.shared);
        uint64_t place = 0;
        uint64_t left = 0;
        int bits = 64;  // bits of the place that are still unknown
        Range ids{block.thread, candidates.vocab_size};
        while (bits > 0) {
            const int width = Less()(bits, kDigitBits);
            shared->weights[block.thread] = 0;
            block.synchronize();
            ids = add_weights(candidates, ids, place, bits, width, shared->weights);
            block.synchronize();
            const uint64_t own = shared->weights[block.thread];
            uint64_t total;
            const uint64_t before = sum_before<kThreads>(block, own, shared->sums, &total);
            left = bits == 64 ? wanted(total) : left;
            if (before < left && left <= before + own) {
                shared->digit = block.thread;
                shared->before = before;
            }
            block.synchronize();
            place = place << width | shared->digit;
            left -= shared->before;
            bits -= width;
        }
        return place;
    }

  private:
    /// Every kThreads-th id in a range.
    struct Range {
        int64_t begin;
        int64_t end;
    };

    /// Adds up the weights of the candidates whose places begin with `prefix`, by the next digit. Returns the
    /// smallest range of ids that contains them, since most threads soon have none.
    template <typename Tokens>
    static __device__ Range add_weights(const Tokens& candidates, const Range& ids, uint64_t prefix, int bits,
                                        int width, uint64_t* weights) {
        Range added{ids.end, ids.end};
#pragma unroll 1  // each read depends on the addition before, so unrolling gains nothing
        for (int64_t id = ids.begin; id < ids.end; id += kThreads) {
            const uint64_t place = candidates.place(id);
            const bool begins = bits == 64 || place >> bits == prefix;
            const uint64_t weight = begins && candidates.exists(id, place) ? candidates.weight(id) : 0;
            if (weight > 0) {
                const uint64_t digit = place >> (bits - width) & ((uint64_t{1} << width) - 1);
                atomic_add(&weights[digit], weight);
                added = {Less()(added.begin, id), id + 1};
            }
        }
        return added;
    }
};

}  // namespace outrider::cuda
