#include "cuda/elementary.cuh"
#include "cuda/elementwise.h"
#include "cuda/values.cuh"

namespace outrider::cuda {
namespace {

struct GatedValue {
    GatedActivation op;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / op.width;
        const int64_t column = index % op.width;
        const float* gates = op.gate_up + row * 2 * op.width;
        const float gate = gates[column];
        const float activated = op.activation == Activation::silu ? silu(gate) : gelu_tanh(gate);
        store(op.out.data, op.out.format, row * op.out.stride + column, activated * gates[op.width + column]);
    }
};

struct GatherValue {
    GatherRows op;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / op.width;
        const int64_t column = index % op.width;
        const float value = load(op.in.data, op.in.format, op.indices[row] * op.in.stride + column);
        store(op.out.data, op.out.format, row * op.out.stride + column, value);
    }
};

struct CapValue {
    SoftCap op;

    __device__ void operator()(int64_t index) const {
        op.values[index] = soft_capped(op.values[index], op.cap);
    }
};

struct ReadWord {
    const volatile uint64_t* from;  // volatile: or nothing would be read, as nothing is made of it

    __device__ void operator()(int64_t index) const {
        const uint64_t word = from[index];
        static_cast<void>(word);
    }
};

}  // namespace

void gated_activation(const Stream& stream, const GatedActivation& op) {
    for_each(stream, static_cast<int64_t>(op.rows) * op.width, GatedValue{op});
}

void gather_rows(const Stream& stream, const GatherRows& op) {
    for_each(stream, static_cast<int64_t>(op.rows) * op.width, GatherValue{op});
}

void soft_cap(const Stream& stream, const SoftCap& op) {
    for_each(stream, op.count, CapValue{op});
}

/// Neighbouring threads read neighbouring words, so that all of it is stripes.
void read(const Stream& stream, const Read& op) {
    const auto* words = reinterpret_cast<const volatile uint64_t*>(op.from);
    for_each(stream, static_cast<int64_t>(op.bytes / sizeof(uint64_t)), ReadWord{words});
}

}  // namespace outrider::cuda
