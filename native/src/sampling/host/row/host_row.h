// HostRow: the values of one row in host memory, which the sampler steps turn into its distribution.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "outrider/sampling/noise.h"
#include "sampling/host/row/row_sum.h"
#include "sampling/host/row/selection.h"
#include "sampling/host/row/softmax.h"

namespace outrider {

/// A token's key in a step's own order, and its mass.
struct KeyedMass {
    uint64_t key;
    uint64_t mass;
};

/// The log-probabilities by which feedback samplers judge the drawn token.
struct Judged {
    std::vector<float> values;  // [vocab_size]
    double norm = 0;            // the log of the sum of their exponentials

    double logprob(int32_t token_id) const { return static_cast<double>(values[token_id]) - norm; }
};

/// Scratch memory that a thread reuses from row to row.
struct StepScratch {
    std::vector<Scored> ranked;
    std::vector<uint64_t> masses;  // masses of `ranked`
    std::vector<KeyedMass> keyed;
    Judged judged;
};

/// Implements the row operations that are documented in `run_steps.h`.
class HostRow {
  public:
    /// # values: [count]
    HostRow(float* values, int count, RowMaximum maximum, NoiseKey noise, StepScratch* scratch)
        : values_(values), count_(count), maximum_(maximum), noise_(noise), scratch_(*scratch) {}

    const RowMaximum& maximum() const { return maximum_; }
    bool is_valid() const { return maximum_.valid; }
    float best() const { return maximum_.value; }
    int64_t count() const { return count_; }

    template <typename Change>
    void change(const Change& change) {
        for (int id = 0; id < count_; ++id) {
            values_[id] = change(id, values_[id]);
        }
        maximum_ = find_maximum(values_, count_);
    }

    template <typename Term>
    double sum(const Term& term) const {
        return sum_terms(values_, count_, best(), term);
    }
    template <typename Term>
    double sum_all(const Term& term) const {
        constexpr float kNoFloor = std::numeric_limits<float>::lowest();
        return sum_terms(values_, count_, best(), kNoFloor, term);
    }

    Scored last_of_count(int64_t count);
    Scored last_of_share(double part);
    template <typename Key>
    uint64_t last_key_of_share(const Key& key, double part) {
        scratch_.keyed.clear();
        for (int id = 0; id < count_; ++id) {
            if (values_[id] > -std::numeric_limits<float>::infinity()) {
                scratch_.keyed.push_back({key(values_[id]), mass_of_value(values_[id])});
            }
        }
        return last_key(part);
    }

    void rank_best(int64_t count);
    float ranked_value(int64_t place) const { return scratch_.ranked[place].value; }
    void rank();
    int64_t num_ranked() const { return static_cast<int64_t>(scratch_.ranked.size()); }
    uint64_t mass(int64_t place) const { return scratch_.masses[place]; }
    template <typename Term>
    uint64_t sum_ranked(const Term& term) const {
        uint64_t sum = 0;
        for (int64_t place = 0; place < num_ranked(); ++place) {
            sum += term(place);
        }
        return sum;
    }
    template <typename Term, typename Change>
    void change_ranked(const Term& term, const Change& change) {
        uint64_t before = 0;
        for (int64_t place = 0; place < num_ranked(); ++place) {
            const Scored& token = scratch_.ranked[place];
            const uint64_t through = before + term(place);
            values_[token.token_id] = change(place, token.value, before, through);
            before = through;
        }
        maximum_ = find_maximum(values_, count_);
    }

    double chance(NoiseStream stream) const;

    void note_judged(double norm);

  private:
    uint64_t mass_of_value(float value) const;
    /// Finds the last key of a share among `scratch_.keyed`.
    uint64_t last_key(double part);

    float* values_;
    int count_;
    RowMaximum maximum_;
    NoiseKey noise_;
    StepScratch& scratch_;
};

}  // namespace outrider
