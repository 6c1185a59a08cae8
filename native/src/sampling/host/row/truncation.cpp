#include "sampling/host/row/truncation.h"

#include <algorithm>
#include <limits>

#include "sampling/host/row/softmax.h"
#include "sampling/mass.h"
#include "sampling/portable_math.h"

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double weight(float value, float best) {
    return portable_exp(static_cast<double>(value) - static_cast<double>(best));
}

uint64_t mass(float value, float best) {
    return mass_of(weight(value, best));
}

/// The number of best ranked tokens whose masses add up to `wanted`; 0 if all of them have less.
size_t shortest_prefix(const std::vector<Scored>& ranked, float best, uint64_t wanted) {
    uint64_t sum = 0;
    for (size_t i = 0; i < ranked.size(); ++i) {
        sum += mass(ranked[i].value, best);
        if (sum >= wanted) {
            return i + 1;
        }
    }
    return 0;
}

void select_top_k(const SamplingNumbers& params, float best, const float* values, int count,
                  std::vector<Scored>* ranked) {
    select_best(values, count, params.top_k, ranked);
    if (params.top_p < 1) {
        uint64_t total = 0;
        for (const Scored& candidate : *ranked) {
            total += mass(candidate.value, best);
        }
        ranked->resize(shortest_prefix(*ranked, best, share_of(params.top_p, total)));
    }
}

void mask_worse_than(const Scored& last, float* values, int count) {
    for (int i = 0; i < count; ++i) {
        const bool kept = values[i] > last.value || (values[i] == last.value && i <= last.token_id);
        values[i] = kept ? values[i] : -kInfinity;
    }
}

/// A value below this is removed whatever the last bits of min_p are, which saves computing its exponential.
float hopeless(double min_p, float best) {
    return best + static_cast<float>(portable_log(std::max(min_p, 1e-300))) - 1.0f;
}

void apply_min_p(double min_p, float best, float* values, int count) {
    const float out = hopeless(min_p, best);
    for (int i = 0; i < count; ++i) {
        if (values[i] < out || weight(values[i], best) < min_p) {
            values[i] = -kInfinity;
        }
    }
}

}  // namespace

// Most rows need a few dozen candidates, so ever longer selections are tried.
void select_nucleus(double top_p, float best, const float* values, int count, std::vector<Scored>* ranked) {
    const uint64_t wanted = share_of(top_p, sum_mass(values, count, best));
    for (int64_t tried = 64;; tried *= 8) {
        select_best(values, count, tried, ranked);
        const size_t kept = shortest_prefix(*ranked, best, wanted);
        if (kept > 0) {
            ranked->resize(kept);
        }
        if (kept > 0 || tried >= count) {
            return;
        }
    }
}

void truncate(const SamplingNumbers& params, float best, float* values, int count,
              std::vector<Scored>* ranked) {
    if (params.has_top_k(count)) {
        select_top_k(params, best, values, count, ranked);
        mask_worse_than(ranked->back(), values, count);
    } else if (params.top_p < 1) {
        select_nucleus(params.top_p, best, values, count, ranked);
        mask_worse_than(ranked->back(), values, count);
    }
    if (params.min_p > 0) {
        apply_min_p(params.min_p, best, values, count);
    }
}

}  // namespace outrider
