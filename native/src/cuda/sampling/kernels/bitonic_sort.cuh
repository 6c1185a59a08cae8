// A bitonic sort (Batcher, "Sorting networks and their applications", AFIPS 1968): each step compares the
// same places, whatever the values.
#pragma once

#include <cstdint>

#include "sampling/scored.h"

namespace outrider::cuda {

/// Compares all pairs of places at this distance, and brings each into the order of its run.
/// # distance: a power of two
template <int kThreads>
__device__ inline void compare_places(const Block& block, int64_t run, int64_t distance, int64_t size,
                                      Scored* ranked) {
    for (int64_t pair = block.thread; pair < size / 2; pair += kThreads) {
        const int64_t place = 2 * pair - (pair & (distance - 1));
        const Scored first = ranked[place];
        const Scored second = ranked[place + distance];
        const bool best_first = (place & run) == 0;
        if (best_first ? is_better(second, first) : is_better(first, second)) {
            ranked[place] = second;
            ranked[place + distance] = first;
        }
    }
    block.synchronize();
}

/// Sorts the best first.  # ranked: [size], a power of two
template <int kThreads>
__device__ inline void sort_best_first(const Block& block, int64_t size, Scored* ranked) {
    for (int64_t run = 2; run <= size; run *= 2) {
        for (int64_t distance = run / 2; distance > 0; distance /= 2) {
            compare_places<kThreads>(block, run, distance, size, ranked);
        }
    }
}

}  // namespace outrider::cuda
