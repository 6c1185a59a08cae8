// Mixture-of-experts operations on one row: choosing its experts, and summing their weighted outputs.
#pragma once

#include "cpu/vec/elementary.h"
#include "cpu/vec/vec.h"
#include "outrider/decoder/limits.h"
#include "outrider/device/expert_operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Orders numbers by size (-0 and 0 are equal), ties by lowest id; no two ids have the same rank. NaN ranks above
/// or below all numbers, by its sign.
OUTRIDER_INLINE int64_t rank_of(const float* values, int64_t id) {
    const auto bits = bit_cast<int32_t>(values[id] + 0.0f);
    const int32_t ordered = bits ^ (bits >> 31 & 0x7FFFFFFF);
    return ordered * (int64_t{1} << 32) - id;
}

/// The least rank among the `chosen` greatest.
inline int64_t least_chosen_rank(const float* values, int64_t count, int64_t chosen) {
    int64_t last = INT64_MAX;
    for (int64_t i = 0; i < chosen; ++i) {
        int64_t greatest = INT64_MIN;
        for (int64_t id = 0; id < count; ++id) {
            const int64_t rank = rank_of(values, id);
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

/// The logistic functions of logits.
inline void write_sigmoids(const float* logits, int64_t count, float* out) {
    for (int64_t at = 0; at < count; at += kLanes) {
        const Vec values = load_first(logits + at, count - at);
        store_first(out + at, 1.0f / (1.0f + exponential(-values)), count - at);
    }
}

/// A group is chosen by its best logit, or by the sum of its best two scores.
inline float value_of_group(ExpertScores scores, const float* values, int64_t count) {
    float best = -__builtin_inff();
    float second = best;
    for (int64_t i = 0; i < count; ++i) {
        const float value = values[i];
        second = value > best ? best : value > second ? value : second;
        best = value > best ? value : best;
    }
    return scores == ExpertScores::softmax ? best : best + second;
}

/// Makes the experts outside of the best groups impossible to choose.
inline void rule_out_other_groups(const RoutingRule& rule, int64_t count, float* choices) {
    const int64_t size = count / rule.groups;
    float group_values[kMostExperts];
    for (int64_t group = 0; group < rule.groups; ++group) {
        group_values[group] = value_of_group(rule.scores, choices + group * size, size);
    }
    const int64_t least = least_chosen_rank(group_values, rule.groups, rule.groups_per_token);
    for (int64_t id = 0; id < count; ++id) {
        choices[id] = rank_of(group_values, id / size) < least ? -__builtin_inff() : choices[id];
    }
}

/// The weights of experts by their logits.
inline void weigh_by_softmax(const Route& op, const float* logits, const int32_t* experts, float* weights) {
    const int64_t chosen = op.out.per_token;
    float largest = -__builtin_inff();
    for (int64_t at = 0; at < chosen; ++at) {
        largest = weights[at] > largest ? weights[at] : largest;
    }
    const float sum = op.rule.are_normalised ? sum_of_powers(weights, chosen, largest)
                                             : sum_of_powers(logits, op.out.count, largest);
    for (int64_t at = 0; at < chosen; at += kLanes) {
        const Vec powers = exponential(load_first(weights + at, chosen - at) - largest);
        store_first(weights + at, op.rule.weight_scale * (powers / sum), chosen - at);
    }
    for (int64_t at = 0; op.scales && at < chosen; ++at) {
        weights[at] *= op.scales[experts[at]];
    }
}

/// The weights of experts by their scores.
inline void weigh_by_scores(const Route& op, float* weights) {
    const int64_t chosen = op.out.per_token;
    float sum = 0.0f;
    for (int64_t at = 0; at < chosen; ++at) {
        sum += weights[at];
    }
    const float divisor = op.rule.are_normalised ? sum + op.rule.sum_offset : 1.0f;
    for (int64_t at = 0; at < chosen; ++at) {
        weights[at] = op.rule.weight_scale * (weights[at] / divisor);
    }
}

/// Writes the row's experts and weights; gather_by_expert writes the rest of the routing.
inline void route(const Route& op, int64_t row) {
    const int64_t count = op.out.count;
    const int64_t chosen = op.out.per_token;
    const bool is_softmax = op.rule.scores == ExpertScores::softmax;
    const float* logits = op.logits + row * op.stride;
    int32_t* experts = op.out.experts + row * chosen;
    float* weights = op.out.weights + row * chosen;
    float scores[kMostExperts];
    float choices[kMostExperts];
    if (!is_softmax) {
        write_sigmoids(logits, count, scores);
    }
    const float* values = is_softmax ? logits : scores;
    for (int64_t id = 0; id < count; ++id) {
        choices[id] = op.choice_bias ? values[id] + op.choice_bias[id] : values[id];
    }
    if (op.rule.groups > 1) {
        rule_out_other_groups(op.rule, count, choices);
    }
    const int64_t least = least_chosen_rank(choices, count, chosen);
    for (int64_t id = 0, at = 0; id < count; ++id) {
        if (rank_of(choices, id) >= least) {
            experts[at] = static_cast<int32_t>(id);
            weights[at++] = values[id];
        }
    }
    if (is_softmax) {
        weigh_by_softmax(op, logits, experts, weights);
    } else {
        weigh_by_scores(op, weights);
    }
}

inline void mix_experts(const MixExperts& op, int64_t row) {
    const int64_t chosen = op.routing.per_token;
    const int32_t* places = op.routing.places + row * chosen;
    const float* weights = op.routing.weights + row * chosen;
    float* out = op.out + row * op.out_stride;
    const Vec share =
        op.gates ? 1.0f / (1.0f + exponential(splat(-op.gates[row * op.gate_stride]))) : splat(1.0f);
    for (int64_t column = 0; column < op.width; column += kLanes) {
        const int64_t count = op.width - column;
        Vec sum = op.adds_to_out ? share * load_first(out + column, count) : Vec{};
        for (int64_t i = 0; i < chosen; ++i) {
            const float* output = op.outputs + int64_t{places[i]} * op.width + column;
            sum = multiply_add(splat(weights[i]), load_first(output, count), sum);
        }
        store_first(out + column, sum, count);
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
