#include "sampling/host/row/selection.h"

#include <algorithm>
#include <limits>

namespace outrider {
namespace {

void keep_best(size_t wanted, std::vector<Scored>* pool) {
    std::nth_element(pool->begin(), pool->begin() + static_cast<int64_t>(wanted) - 1, pool->end(), is_better);
    pool->resize(wanted);
}

}  // namespace

void select_best(const float* values, int count, int64_t wanted, std::vector<Scored>* best) {
    best->clear();
    const auto keep = static_cast<size_t>(std::min<int64_t>(wanted, count));
    if (keep == 0) {
        return;
    }
    float threshold = -std::numeric_limits<float>::infinity();
    for (int i = 0; i < count; ++i) {
        if (values[i] > threshold) {  // a value equal to the worst kept one has a higher id
            best->push_back({values[i], i});
            if (best->size() == 2 * keep) {
                keep_best(keep, best);
                threshold = best->back().value;
            }
        }
    }
    if (best->size() > keep) {
        keep_best(keep, best);
    }
    std::sort(best->begin(), best->end(), is_better);
}

int32_t rank_of(int32_t token_id, const float* values, int count) {
    const float value = values[token_id];
    const auto above = std::count_if(values, values + count, [=](float other) { return other > value; });
    const auto ties_before = std::count(values, values + token_id, value);
    return static_cast<int32_t>(1 + above + ties_before);
}

}  // namespace outrider
