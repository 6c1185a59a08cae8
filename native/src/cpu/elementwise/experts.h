// Mixture-of-experts operations on one row: choosing its experts, and summing their weighted outputs.
#pragma once

#include "cpu/vec/elementary.h"
#include "cpu/vec/vec.h"
#include "outrider/device/expert_operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Orders the experts by logit (-0 and 0 are equal), ties by lowest id; no two ids have the same rank. NaN
/// ranks above or below all numbers, by its sign.
OUTRIDER_INLINE int64_t rank_of(const float* logits, int64_t id) {
    const auto bits = bit_cast<int32_t>(logits[id] + 0.0f);
    const int32_t ordered = bits ^ (bits >> 31 & 0x7FFFFFFF);
    return ordered * (int64_t{1} << 32) - id;
}

/// The least rank among the `chosen` greatest.
inline int64_t least_chosen_rank(const float* logits, int64_t count, int64_t chosen) {
    int64_t last = INT64_MAX;
    for (int64_t i = 0; i < chosen; ++i) {
        int64_t greatest = INT64_MIN;
        for (int64_t id = 0; id < count; ++id) {
            const int64_t rank = rank_of(logits, id);
            greatest = rank < last ? larger(rank, greatest) : greatest;
        }
        last = greatest;
    }
    return last;
}

/// The sum of e^(logit - largest).
inline float sum_of_powers(const float* logits, int64_t count, float largest) {
    Vec sum = {};
    for (int64_t at = 0; at < count; at += kLanes) {
        const Vec powers = exponential(load_first(logits + at, count - at) - largest);
        sum += choose(lane_indices() < static_cast<int32_t>(count - at), powers, Vec{});
    }
    return sum_lanes(sum);
}

/// Writes the row's experts and weights; gather_by_expert writes the rest of the routing.
inline void route(const Route& op, int64_t row) {
    const int64_t count = op.out.count;
    const int64_t chosen = op.out.per_token;
    const float* logits = op.logits + row * op.stride;
    int32_t* experts = op.out.experts + row * chosen;
    float* weights = op.out.weights + row * chosen;
    const int64_t least = least_chosen_rank(logits, count, chosen);
    float largest = -__builtin_inff();
    for (int64_t id = 0, at = 0; id < count; ++id) {
        if (rank_of(logits, id) >= least) {
            experts[at] = static_cast<int32_t>(id);
            weights[at++] = logits[id];
            largest = logits[id] > largest ? logits[id] : largest;
        }
    }
    const float sum =
        op.are_normalised ? sum_of_powers(weights, chosen, largest) : sum_of_powers(logits, count, largest);
    for (int64_t at = 0; at < chosen; at += kLanes) {
        const Vec powers = exponential(load_first(weights + at, chosen - at) - largest);
        store_first(weights + at, powers / sum, chosen - at);
    }
}

inline void mix_experts(const MixExperts& op, int64_t row) {
    const int64_t chosen = op.routing.per_token;
    const int32_t* places = op.routing.places + row * chosen;
    const float* weights = op.routing.weights + row * chosen;
    float* out = op.out + row * op.width;
    const Vec share = op.gates ? 1.0f / (1.0f + exponential(splat(-op.gates[row * op.gate_stride]))) : Vec{};
    for (int64_t column = 0; column < op.width; column += kLanes) {
        const int64_t count = op.width - column;
        Vec sum = op.gates ? share * load_first(out + column, count) : Vec{};
        for (int64_t i = 0; i < chosen; ++i) {
            const float* output = op.outputs + int64_t{places[i]} * op.width + column;
            sum = multiply_add(splat(weights[i]), load_first(output, count), sum);
        }
        store_first(out + column, sum, count);
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
