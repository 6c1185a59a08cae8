#include "sampling/host/row/host_row.h"

#include <algorithm>
#include <numeric>

#include "sampling/host/row/truncation.h"
#include "sampling/mass.h"
#include "sampling/steps/row_figures.h"

namespace outrider {
namespace {

using Keyed = std::vector<KeyedMass>::iterator;

uint64_t total_of(Keyed first, Keyed last) {
    return std::accumulate(first, last, uint64_t{0},
                           [](uint64_t sum, const KeyedMass& token) { return sum + token.mass; });
}

}  // namespace

Scored HostRow::last_of_count(int64_t count) {
    rank_best(count);
    return scratch_.ranked.back();
}

Scored HostRow::last_of_share(double part) {
    select_nucleus(part, best(), values_, count_, &scratch_.ranked);
    return scratch_.ranked.back();
}

uint64_t HostRow::last_key(double part) {
    Keyed first = scratch_.keyed.begin();
    Keyed last = scratch_.keyed.end();
    uint64_t wanted = share_of(part, total_of(first, last));
    while (last - first > 1) {
        const Keyed middle = first + (last - first) / 2;
        std::nth_element(first, middle, last,
                         [](const KeyedMass& a, const KeyedMass& b) { return a.key < b.key; });
        const uint64_t lower = total_of(first, middle);
        if (lower >= wanted) {
            last = middle;
        } else {
            wanted -= lower;
            first = middle;
        }
    }
    return first->key;
}

void HostRow::rank_best(int64_t count) {
    select_best(values_, count_, count, &scratch_.ranked);
}

void HostRow::rank() {
    rank_best(count_);
    scratch_.masses.resize(scratch_.ranked.size());
    std::transform(scratch_.ranked.begin(), scratch_.ranked.end(), scratch_.masses.begin(),
                   [this](const Scored& token) { return mass_of_value(token.value); });
}

double HostRow::chance(NoiseStream stream) const {
    const NoiseKey key{noise_.seed, noise_.position, stream};
    return uniform_of(key.words(0)[0]);
}

void HostRow::note_judged(double norm) {
    scratch_.judged.values.assign(values_, values_ + count_);
    scratch_.judged.norm = norm;
}

uint64_t HostRow::mass_of_value(float value) const {
    return mass_of(weight_of(value, best()));
}

}  // namespace outrider
