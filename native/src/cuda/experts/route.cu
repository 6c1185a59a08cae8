// Routing: chooses the experts of each row, and gathers the rows by expert.
#include "cuda/elementwise/normalise.cuh"
#include "cuda/experts/experts.h"
#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/reduce.cuh"
#include "cuda/values/elementary.cuh"

namespace outrider::cuda {
namespace {

/// Orders numbers by size (-0 and 0 are equal), ties by lowest id.
__device__ int64_t rank_of(const float* values, int id) {
    const auto bits = bit_cast<int32_t>(values[id] + 0.0f);
    const int32_t ordered = bits ^ (bits >> 31 & 0x7FFFFFFF);
    return ordered * (int64_t{1} << 32) - id;
}

/// Whether fewer than `chosen` of the values rank above this one.
__device__ bool is_among_best(const float* values, int count, int id, int chosen) {
    const int64_t rank = rank_of(values, id);
    int greater = 0;
    for (int other = 0; other < count; ++other) {
        greater += rank_of(values, other) > rank;
    }
    return greater < chosen;
}

__device__ float sigmoid(float value) {
    return 1.0f / (1.0f + exponential(-value));
}

/// A group is chosen by its best logit, or by the sum of its best two scores.
__device__ float value_of_group(ExpertScores scores, const float* values, int count) {
    float best = minus_infinity();
    float second = best;
    for (int i = 0; i < count; ++i) {
        const float value = values[i];
        second = value > best ? best : value > second ? value : second;
        best = value > best ? value : best;
    }
    return scores == ExpertScores::softmax ? best : best + second;
}

/// A block routes one row. Its threads share the experts; sums are added up thread by thread, lane by lane
/// and then warp by warp, independent of the other rows.
struct RouteRow {
    static constexpr int kThreads = 128;
    static constexpr int kBlocksPerMultiprocessor = 4;
    static constexpr size_t kReduced = kThreads / kWarp * sizeof(float);  // bytes of shared memory

    Route op;

    __device__ void operator()(const Block& block) const {
        const float* logits = op.logits + block.index * op.stride;
        auto* const choices = reinterpret_cast<float*>(block.shared + kReduced);          // [count]
        auto* const group_values = choices + op.out.count;                                // [groups]
        auto* const are_chosen = reinterpret_cast<char*>(group_values + op.rule.groups);  // [count]
        for (int id = block.thread; id < op.out.count; id += kThreads) {
            const float value = is_softmax() ? logits[id] : sigmoid(logits[id]);
            choices[id] = op.choice_bias ? value + op.choice_bias[id] : value;
        }
        block.synchronize();
        if (op.rule.groups > 1) {
            rule_out_other_groups(block, choices, group_values);
        }
        for (int id = block.thread; id < op.out.count; id += kThreads) {
            are_chosen[id] = static_cast<char>(is_among_best(choices, op.out.count, id, op.out.per_token));
        }
        block.synchronize();
        float largest = minus_infinity();
        for (int id = block.thread; id < op.out.count; id += kThreads) {
            largest = are_chosen[id] && logits[id] > largest ? logits[id] : largest;
        }
        largest = reduce<kThreads>(block, largest, Greater());
        float sum = 0.0f;
        for (int id = block.thread; id < op.out.count; id += kThreads) {
            sum += are_chosen[id] || !op.rule.are_normalised ? score(logits[id], largest) : 0.0f;
        }
        sum = sum_of_block<kThreads>(block, sum) + op.rule.sum_offset;  // which is 0 with softmax
        const float divisor = is_softmax() || op.rule.are_normalised ? sum : 1.0f;
        for (int id = block.thread; id < op.out.count; id += kThreads) {
            if (are_chosen[id]) {
                const int64_t choice = block.index * op.out.per_token + number_before(are_chosen, id);
                op.out.experts[choice] = id;
                const float weight = op.rule.weight_scale * (score(logits[id], largest) / divisor);
                op.out.weights[choice] = op.scales ? weight * op.scales[id] : weight;
            }
        }
    }

    /// Makes the experts outside of the best groups impossible to choose.
    __device__ void rule_out_other_groups(const Block& block, float* choices, float* group_values) const {
        const int size = op.out.count / op.rule.groups;
        for (int group = block.thread; group < op.rule.groups; group += kThreads) {
            group_values[group] = value_of_group(op.rule.scores, choices + group * size, size);
        }
        block.synchronize();
        for (int id = block.thread; id < op.out.count; id += kThreads) {
            if (!is_among_best(group_values, op.rule.groups, id / size, op.rule.groups_per_token)) {
                choices[id] = minus_infinity();
            }
        }
        block.synchronize();
    }

    __device__ bool is_softmax() const { return op.rule.scores == ExpertScores::softmax; }

    __device__ float score(float logit, float largest) const {
        return is_softmax() ? exponential(logit - largest) : sigmoid(logit);
    }

    __device__ static int number_before(const char* are_chosen, int id) {
        int number = 0;
        for (int other = 0; other < id; ++other) {
            number += are_chosen[other];
        }
        return number;
    }
};

/// A block gathers the rows of one expert. Each thread has a contiguous range of the choices of all rows.
struct GatherExpert {
    static constexpr int kThreads = 256;
    static constexpr int kBlocksPerMultiprocessor = 4;
    static constexpr size_t kSharedBytes = kThreads / kWarp * sizeof(int32_t);

    Routing routing;
    int64_t choices;

    __device__ void operator()(const Block& block) const {
        const auto expert = static_cast<int32_t>(block.index);
        const int64_t begin = choices * block.thread / kThreads;
        const int64_t end = choices * (block.thread + 1) / kThreads;
        int32_t lower = 0;
        int32_t own = 0;
        for (int64_t choice = begin; choice < end; ++choice) {
            lower += routing.experts[choice] < expert;
            own += routing.experts[choice] == expert;
        }
        auto* const sums = reinterpret_cast<int32_t*>(block.shared);
        int32_t first = 0;
        int32_t all = 0;
        sum_before<kThreads>(block, lower, sums, &first);
        int32_t place = sum_before<kThreads>(block, own, sums, &all);
        place += first;
        for (int64_t choice = begin; choice < end; ++choice) {
            if (routing.experts[choice] == expert) {
                routing.places[choice] = place;
                routing.gathered[place++] = static_cast<int32_t>(choice / routing.per_token);
            }
        }
        if (block.thread == 0) {
            routing.first_rows[expert] = first;
            if (expert == routing.count - 1) {
                routing.first_rows[expert + 1] = first + all;
            }
        }
    }
};

struct MixedValue {
    MixExperts op;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / op.width;
        const int64_t column = index % op.width;
        const int64_t first = row * op.routing.per_token;
        float* const out = op.out + row * op.out_stride + column;
        float sum = op.adds_to_out ? *out : 0.0f;
        if (op.gates) {
            sum *= sigmoid(op.gates[row * op.gate_stride]);
        }
        for (int64_t choice = first; choice < first + op.routing.per_token; ++choice) {
            const float output = op.outputs[int64_t{op.routing.places[choice]} * op.width + column];
            sum = fmaf(op.routing.weights[choice], output, sum);
        }
        *out = sum;
    }
};

}  // namespace

void route(const Stream& stream, const Route& op) {
    const size_t numbers = static_cast<size_t>(op.out.count) + op.rule.groups;
    for_each_block(stream, op.rows, RouteRow::kReduced + numbers * sizeof(float) + op.out.count,
                   RouteRow{op});
    for_each_block(stream, op.out.count, GatherExpert::kSharedBytes,
                   GatherExpert{op.out, int64_t{op.rows} * op.out.per_token});
}

void mix_experts(const Stream& stream, const MixExperts& op) {
    for_each(stream, int64_t{op.rows} * op.width, MixedValue{op});
}

}  // namespace outrider::cuda
