// Int4Group: neighbouring weights of one output feature as four-bit numbers with a common scale.
#pragma once

#include "cpu/quantised_row.h"
#include "cpu/vec.h"
#include "outrider/format.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// What is added to a value, -8 ... 7, to store it without a sign.
constexpr int kInt4Offset = 8;

struct Int4Group {
    BFloat16 scale;
    int values[kInt4Group];

    /// Those of the scales near the plain one that leaves the least squared error; for numbers rounded with
    /// some scale, the best is found by least squares. Missing weights count as zeros.
    Int4Group(const float* weights, int64_t count) {
        float padded[kInt4Group] = {};
        __builtin_memcpy(padded, weights, count * sizeof(float));
        scale = round_scale(best_scale(padded));
        const float unit = to_float(scale);
        const float factor = unit != 0.0f ? 1.0f / unit : 0.0f;
        for (int k = 0; k < kInt4Group; k += kLanes) {
            const IntVec rounded = round(load(padded + k), factor);
            __builtin_memcpy(values + k, &rounded, sizeof(rounded));
        }
    }

  private:
    static BFloat16 round_scale(float value) {
        BFloat16 rounded[kLanes];
        store(rounded, splat(value));
        return rounded[0];
    }

    OUTRIDER_INLINE static IntVec round(Vec weights, float factor) {
        const IntVec rounded = to_nearest(weights, factor);
        const IntVec low = rounded < -8 ? IntVec{} - 8 : rounded;
        return low > 7 ? IntVec{} + 7 : low;
    }

    /// The weight of the largest magnitude, with its sign: it gets the number -8, which has no positive
    /// counterpart.
    static float extreme(const float* weights) {
        float found = 0.0f;
        float nothing = 0.0f;  // NaN where a weight is not finite, and so is the scale then
        for (int k = 0; k < kInt4Group; ++k) {
            found = __builtin_fabsf(weights[k]) > __builtin_fabsf(found) ? weights[k] : found;
            nothing += weights[k] * 0.0f;
        }
        return found + nothing;
    }

    static float best_scale(const float* weights) {
        const float largest = extreme(weights);
        if (largest == 0.0f) {
            return 0.0f;
        }
        float best_gain = 0.0f;
        float best = largest / -8.0f;
        for (int trial = -4; trial <= 4; ++trial) {
            const float factor = (-8.0f + 0.2f * static_cast<float>(trial)) / largest;
            Vec products = {};
            Vec squares = {};
            for (int k = 0; k < kInt4Group; k += kLanes) {
                const Vec weight = load(weights + k);
                const Vec number = __builtin_convertvector(round(weight, factor), Vec);
                products = multiply_add(weight, number, products);
                squares = multiply_add(number, number, squares);
            }
            const float product = sum_lanes(products);
            const float square = sum_lanes(squares);
            if (square > 0.0f && product * product > best_gain * square) {
                best_gain = product * product / square;
                best = product / square;
            }
        }
        return best;
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
