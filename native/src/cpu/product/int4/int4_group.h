// Int4Group: neighbouring weights of one output feature as four-bit numbers.
#pragma once

#include "cpu/product/quantised_row.h"
#include "cpu/vec/vec.h"
#include "outrider/device/format.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// A weight is step * number + offset, with numbers -8 ... 7: an integer that fits into a byte, so that sums
/// of products with int8 are exact.
struct Int4Group {
    static constexpr float kLargest = 127.5f;  // -128 ... 127 once rounded
    static constexpr int kMaxStep = 17;        // 15 such steps span all bytes

    int step = 1;
    int offset = 0;  // 8 * step - 128 ... 127 - 7 * step
    int numbers[kInt4Group];

    /// Tries steps and offsets near those that span the weights, and keeps those with the least squared
    /// error.  # weights: [kInt4Group], -kLargest ... kLargest
    explicit Int4Group(const float* weights) {
        Vec lows = splat(kLargest);
        Vec highs = -lows;
        for (int k = 0; k < kInt4Group; k += kLanes) {
            const Vec some = load(weights + k);
            lows = choose(some < lows, some, lows);
            highs = choose(some > highs, some, highs);
        }
        const float low = -max_lanes(-lows);
        const float high = max_lanes(highs);
        const auto widest = static_cast<int>(within(1, nearest((high - low) / 15.0f), kMaxStep));
        float least = __builtin_inff();
        for (int trial = static_cast<int>(larger(1, widest - 1)); trial <= widest; ++trial) {
            find_offset(weights, trial, (low + high) / 2.0f, &least);
        }
        for (int k = 0; k < kInt4Group; k += kLanes) {
            store_as(numbers + k, round(load(weights + k), step, offset));
        }
    }

  private:
    static int64_t nearest(float value) { return to_nearest(splat(value), 1.0f)[0]; }
    static int64_t within(int64_t low, int64_t value, int64_t high) {
        return larger(low, smaller(value, high));
    }

    OUTRIDER_INLINE static IntVec round(Vec weights, int step, int offset) {
        const IntVec rounded =
            to_nearest(weights - static_cast<float>(offset), 1.0f / static_cast<float>(step));
        const IntVec low = rounded < -8 ? IntVec{} - 8 : rounded;
        return low > 7 ? IntVec{} + 7 : low;
    }

    static float squared_error(const float* weights, int step, int offset) {
        Vec squares = {};
        for (int k = 0; k < kInt4Group; k += kLanes) {
            const Vec weight = load(weights + k);
            const IntVec value = round(weight, step, offset) * step + offset;
            const Vec error = weight - __builtin_convertvector(value, Vec);
            squares = multiply_add(error, error, squares);
        }
        return sum_lanes(squares);
    }

    void find_offset(const float* weights, int trial, float centre, float* least) {
        const int64_t lowest = 8 * trial - 128;
        const int64_t highest = 127 - 7 * trial;
        const int64_t middle = within(lowest, nearest(centre + 0.5f * static_cast<float>(trial)), highest);
        const int64_t reach = 3 * trial / 8;  // at half a step, one more weight would be clipped
        for (int64_t at = larger(lowest, middle - reach); at <= smaller(middle + reach, highest); ++at) {
            const float error = squared_error(weights, trial, static_cast<int>(at));
            if (error < *least) {
                *least = error;
                step = trial;
                offset = static_cast<int>(at);
            }
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
