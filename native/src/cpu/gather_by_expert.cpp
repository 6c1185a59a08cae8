#include "cpu/gather_by_expert.h"

#include <algorithm>
#include <numeric>

namespace outrider::cpu {

void gather_by_expert(const Routing& routing, int rows) {
    int32_t* first = routing.first_rows;
    const int64_t choices = int64_t{rows} * routing.per_token;
    // A counting sort: first[e] counts up to the end of expert e's rows, then moves back to their beginning.
    std::fill(first, first + routing.count + 1, 0);
    for (int64_t choice = 0; choice < choices; ++choice) {
        ++first[routing.experts[choice]];
    }
    std::partial_sum(first, first + routing.count + 1, first);
    for (int64_t choice = choices - 1; choice >= 0; --choice) {
        const int32_t place = --first[routing.experts[choice]];
        routing.places[choice] = place;
        routing.gathered[place] = static_cast<int32_t>(choice / routing.per_token);
    }
}

}  // namespace outrider::cpu
