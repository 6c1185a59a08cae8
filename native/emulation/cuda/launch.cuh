// for_each on the host, in the place of src/cuda/launch.cuh: what a kernel's threads do, one after another.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>

#include "cuda/stream.h"
#include "float_environment.h"

#define __device__
#define __host__

namespace outrider::cuda {

/// The next odd step around a circle of `count` places that visits them all, about 0.62 of the way round.
inline int64_t scattering_step(int64_t count) {
    int64_t step = count * 5 / 8 | 1;
    while (std::gcd(step, count) != 1) {
        step += 2;
    }
    return step;
}

/// The indices come in a scattered order: a kernel whose threads read what others write would show it.
template <typename Body>
void for_each(const Stream&, int64_t count, const Body& body) {
    const FloatEnvironment environment;
    if (count > 0) {
        const int64_t step = scattering_step(count);
        for (int64_t i = 0, index = count / 2; i < count; ++i, index = (index + step) % count) {
            body(index);
        }
    }
}

}  // namespace outrider::cuda
