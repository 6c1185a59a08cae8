// DeviceRow: the values of one row on the device, which the sampler steps turn into its distribution.
#pragma once

#include <cstdint>
#include <limits>

#include "cuda/primitives/reduce.cuh"
#include "cuda/sampling/kernels/bitonic_sort.cuh"
#include "cuda/sampling/kernels/draw_batch.h"
#include "cuda/sampling/kernels/selection.cuh"
#include "outrider/sampling/noise.h"
#include "sampling/steps/row_figures.h"

namespace outrider::cuda {

/// A row's tokens, ordered by a step's own key.
template <typename Key>
struct KeyedTokens {
    const Key& key;
    const float* values;
    int64_t vocab_size;
    const uint64_t* masses;

    __device__ uint64_t place(int64_t id) const { return key(values[id]); }
    __device__ bool exists(int64_t id, uint64_t) const { return values[id] > -kInfinity; }
    __device__ uint64_t weight(int64_t id) const { return masses[id]; }
};

/// Implements the row operations that are documented in `run_steps.h`; all threads of the block must call
/// them together. Operations that several steps use are not inlined, so that each is compiled once: all steps
/// are one kernel.
class DeviceRow {
  public:
    static constexpr int kThreads = Selection::kThreads;
    static constexpr int kLanesOfSum = 8;

    union Shared {
        Selection::Shared selection;
        uint64_t sums[kThreads / kWarp];
        double lanes[kLanesOfSum];
    };

    __device__ DeviceRow(const Block& block, const DrawBatch& batch)
        : block_(block),
          batch_(batch),
          params_(batch.rows[block.index]),
          parts_(batch.parts + block.index * batch.num_blocks),
          values_(batch.distribution + block.index * batch.vocab_size),
          judged_(batch.judged + block.index * batch.vocab_size),
          masses_(batch.masses + block.index * batch.vocab_size),
          ranked_(batch.ranked + block.index * batch.ranked_size),
          maximum_(batch.drawn[block.index].distribution.maximum) {}

    __device__ const RowMaximum& maximum() const { return maximum_; }
    __device__ bool is_valid() const { return maximum_.valid; }
    __device__ float best() const { return maximum_.value; }
    __device__ int64_t count() const { return batch_.vocab_size; }

    template <typename Change>
    __device__ void change(const Change& change) {
        for (int64_t id = block_.thread; id < batch_.vocab_size; id += kThreads) {
            values_[id] = change(id, values_[id]);
        }
        find_maximum();
    }

    template <typename Term>
    __device__ double sum(const Term& term) const {
        return sum_all(term);
    }
    /// Each thread computes one of the interleaved sums of a block of values, as on the host.
    template <typename Term>
    __attribute__((noinline)) __device__ double sum_all(const Term& term) const {
        const int64_t lane = block_.thread % kLanesOfSum;
        for (int64_t part = block_.thread / kLanesOfSum; part < batch_.num_blocks;
             part += kThreads / kLanesOfSum) {
            double sum = 0.0;
            for (int64_t id = part * kSumBlock + lane; id < batch_.block_end(part); id += kLanesOfSum) {
                sum += term(static_cast<double>(values_[id]) - static_cast<double>(best()));
            }
            parts_[part].sums[lane] = sum;
        }
        block_.synchronize();
        return sum_parts();
    }

    __attribute__((noinline)) __device__ Scored last_of_count(int64_t count) {
        return token_at(Selection::last_place(block_, candidates(nullptr), AtMost{count}));
    }
    __attribute__((noinline)) __device__ Scored last_of_share(double part) {
        weigh();
        return token_at(Selection::last_place(block_, candidates(masses_), wanted_share(part)));
    }
    template <typename Key>
    __device__ uint64_t last_key_of_share(const Key& key, double part) {
        weigh();
        const KeyedTokens<Key> tokens{key, values_, batch_.vocab_size, masses_};
        const uint64_t last = Selection::last_place(block_, tokens, wanted_share(part));
        block_.synchronize();  // all have read the keys
        return last;
    }

    __attribute__((noinline)) __device__ void rank() {
        for (int64_t id = block_.thread; id < batch_.ranked_size; id += kThreads) {
            const bool is_token = id < batch_.vocab_size;
            ranked_[id] = {is_token ? values_[id] : -kInfinity, static_cast<int32_t>(id)};
        }
        block_.synchronize();
        sort_best_first<kThreads>(block_, batch_.ranked_size, ranked_);
        uint64_t count = 0;
        for (int64_t place = block_.thread; place < batch_.vocab_size; place += kThreads) {
            masses_[place] = mass_of(weight_of(ranked_[place].value, best()));
            count += ranked_[place].value > -kInfinity ? 1 : 0;
        }
        num_ranked_ = static_cast<int64_t>(sum_of_threads(count));
    }
    __device__ void rank_best(int64_t) { rank(); }
    __device__ float ranked_value(int64_t place) const { return ranked_[place].value; }
    __device__ int64_t num_ranked() const { return num_ranked_; }
    __device__ uint64_t mass(int64_t place) const { return masses_[place]; }
    template <typename Term>
    __device__ uint64_t sum_ranked(const Term& term) const {
        uint64_t sum = 0;
        for (int64_t place = block_.thread; place < num_ranked_; place += kThreads) {
            sum += term(place);
        }
        return sum_of_threads(sum);
    }
    /// Each thread has an equal number of consecutive places.
    template <typename Term, typename Change>
    __device__ void change_ranked(const Term& term, const Change& change) {
        const int64_t size = (num_ranked_ + kThreads - 1) / kThreads;
        const int64_t first = Less()(block_.thread * size, num_ranked_);
        const int64_t end = Less()(first + size, num_ranked_);
        uint64_t own = 0;
        for (int64_t place = first; place < end; ++place) {
            own += term(place);
        }
        uint64_t total;
        uint64_t before = sum_before<kThreads>(block_, own, shared().sums, &total);
        for (int64_t place = first; place < end; ++place) {
            const Scored& token = ranked_[place];
            const uint64_t through = before + term(place);
            values_[token.token_id] = change(place, token.value, before, through);
            before = through;
        }
        find_maximum();
    }

    __device__ double chance(NoiseStream stream) const {
        const NoiseKey key{params_.seed, static_cast<uint64_t>(params_.position), stream};
        return uniform_of(key.words(0)[0]);
    }

    __device__ void note_judged(double norm) {
        for (int64_t id = block_.thread; id < batch_.vocab_size; id += kThreads) {
            judged_[id] = values_[id];
        }
        if (block_.thread == 0) {
            batch_.drawn[block_.index].judged_norm = norm;
        }
    }

  private:
    struct WantedShare {
        double part;

        __device__ uint64_t operator()(uint64_t total) const { return share_of(part, total); }
    };

    __device__ Shared& shared() const { return *reinterpret_cast<Shared*>(block_.shared); }
    __device__ static WantedShare wanted_share(double part) { return {part}; }
    __device__ Candidates candidates(const uint64_t* masses) const {
        return {values_, batch_.vocab_size, best(), masses};
    }
    __device__ Scored token_at(uint64_t place) const {
        const int64_t id = id_of_place(place);
        const Scored token{values_[id], static_cast<int32_t>(id)};
        block_.synchronize();  // all have read the values
        return token;
    }
    __attribute__((noinline)) __device__ void weigh() {
        for (int64_t id = block_.thread; id < batch_.vocab_size; id += kThreads) {
            masses_[id] = mass_of(weight_of(values_[id], best()));
        }
        block_.synchronize();
    }

    __attribute__((noinline)) __device__ double sum_parts() const {
        if (block_.thread < kLanesOfSum) {
            double sum = 0.0;
            for (int64_t part = 0; part < batch_.num_blocks; ++part) {
                sum += parts_[part].sums[block_.thread];
            }
            shared().lanes[block_.thread] = sum;
        }
        block_.synchronize();
        const double* sums = shared().lanes;
        const double sum =
            ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
        block_.synchronize();  // all have read it
        return sum;
    }
    __attribute__((noinline)) __device__ uint64_t sum_of_threads(uint64_t own) const {
        const uint64_t sum = reduce<kThreads>(block_, own, Sum());
        block_.synchronize();  // all have read it
        return sum;
    }
    __attribute__((noinline)) __device__ void find_maximum() {
        block_.synchronize();  // all values are written
        int32_t greatest = order_key(-kInfinity);
        int32_t least = order_key(kInfinity);
        for (int64_t id = block_.thread; id < batch_.vocab_size; id += kThreads) {
            greatest = Greater()(greatest, order_key(values_[id]));
            least = Less()(least, order_key(values_[id]));
        }
        greatest = reduce<kThreads>(block_, greatest, Greater());
        least = reduce<kThreads>(block_, least, Less());
        const bool valid = greatest < order_key(kInfinity) && least >= order_key(-kInfinity);
        maximum_ = {value_of_key(greatest), valid};
        block_.synchronize();  // all have read it
    }

    const Block& block_;
    const DrawBatch& batch_;
    const DrawRow& params_;
    BlockPart* parts_;
    float* values_;     // [vocab_size]
    float* judged_;     // [vocab_size]
    uint64_t* masses_;  // [vocab_size], by id, or by place once ranked
    Scored* ranked_;    // [ranked_size]
    RowMaximum maximum_;
    int64_t num_ranked_ = 0;
};

}  // namespace outrider::cuda
