// Routing: chooses the experts of each row, and gathers the rows by expert.
#include "cuda/elementwise/normalise.cuh"
#include "cuda/experts/experts.h"
#include "cuda/primitives/launch.cuh"
#include "cuda/primitives/reduce.cuh"
#include "cuda/values/elementary.cuh"

namespace outrider::cuda {
namespace {

/// Orders the experts by logit (-0 and 0 are equal), ties by lowest id.
__device__ int64_t rank_of(const float* logits, int id) {
    const auto bits = bit_cast<int32_t>(logits[id] + 0.0f);
    const int32_t ordered = bits ^ (bits >> 31 & 0x7FFFFFFF);
    return ordered * (int64_t{1} << 32) - id;
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
        auto* const are_chosen = block.shared + kReduced;  // [count]
        for (int id = block.thread; id < op.out.count; id += kThreads) {
            are_chosen[id] = static_cast<char>(is_chosen(logits, id));
        }
        block.synchronize();
        float largest = minus_infinity();
        for (int id = block.thread; id < op.out.count; id += kThreads) {
            largest = are_chosen[id] && logits[id] > largest ? logits[id] : largest;
        }
        largest = reduce<kThreads>(block, largest, Greater());
        float sum = 0.0f;
        for (int id = block.thread; id < op.out.count; id += kThreads) {
            sum += are_chosen[id] || !op.are_normalised ? exponential(logits[id] - largest) : 0.0f;
        }
        sum = sum_of_block<kThreads>(block, sum);
        for (int id = block.thread; id < op.out.count; id += kThreads) {
            if (are_chosen[id]) {
                const int64_t choice = block.index * op.out.per_token + number_before(are_chosen, id);
                op.out.experts[choice] = id;
                op.out.weights[choice] = exponential(logits[id] - largest) / sum;
            }
        }
    }

    __device__ bool is_chosen(const float* logits, int id) const {
        const int64_t rank = rank_of(logits, id);
        int greater = 0;
        for (int other = 0; other < op.out.count; ++other) {
            greater += rank_of(logits, other) > rank;
        }
        return greater < op.out.per_token;
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
        float sum = 0.0f;
        if (op.gates) {
            sum = 1.0f / (1.0f + exponential(-op.gates[row * op.gate_stride])) * op.out[index];
        }
        for (int64_t choice = first; choice < first + op.routing.per_token; ++choice) {
            const float output = op.outputs[int64_t{op.routing.places[choice]} * op.width + column];
            sum = fmaf(op.routing.weights[choice], output, sum);
        }
        op.out[index] = sum;
    }
};

}  // namespace

void route(const Stream& stream, const Route& op) {
    for_each_block(stream, op.rows, RouteRow::kReduced + op.out.count, RouteRow{op});
    for_each_block(stream, op.out.count, GatherExpert::kSharedBytes,
                   GatherExpert{op.out, int64_t{op.rows} * op.out.per_token});
}

void mix_experts(const Stream& stream, const MixExperts& op) {
    for_each(stream, int64_t{op.rows} * op.width, MixedValue{op});
}

}  // namespace outrider::cuda
