#include "cuda/elementwise/elementwise.h"
#include "cuda/elementwise/gated.cuh"
#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/values/elementary.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {
namespace {

struct ActivatedValue {
    Activate op;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / op.width;
        const int64_t column = index % op.width;
        const float* values = op.gate_up + row * (op.is_gated ? 2 : 1) * op.width;
        const float value = values[column];
        const float up = op.is_gated ? values[op.width + column] : 1.0f;
        store(op.out.data, op.out.format, row * op.out.stride + column, gated(op, value, up));
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

struct MinusInfinity {
    float* out;

    __device__ void operator()(int64_t index) const { out[index] = minus_infinity(); }
};

struct SpreadValue {
    SpreadColumns op;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / op.count;
        op.out[row * op.width + op.columns[index % op.count]] = op.in[index];
    }
};

struct CapValue {
    SoftCap op;

    __device__ void operator()(int64_t index) const {
        op.values[index] = soft_capped(op.values[index], op.cap);
    }
};

/// A block reads a stretch of memory, each of its threads several words of 16 bytes at once.
template <int kLoads>
struct ReadStretch {
    static constexpr int kThreads = 256;
    static constexpr int kBlocksPerMultiprocessor = 4;
    static constexpr int64_t kRow = kThreads * 16;
    static constexpr int64_t kBytes = kLoads * kRow;
    static constexpr uint32_t kSeldom = 0x9E3779B9;

    char* from;

    __device__ void operator()(const Block& block) const {
        char* place = from + block.index * kBytes + block.thread * 16;
        Words<4> all[kLoads];
#pragma unroll
        for (int load = 0; load < kLoads; ++load) {
            all[load] = load_words<4, true>(place + load * kRow);
        }
        uint32_t sum = 0;
#pragma unroll
        for (int load = 0; load < kLoads; ++load) {
            for (const uint32_t word : all[load].words) {
                sum ^= word;
            }
        }
        if (sum == kSeldom) {  // or the loads would be left out, as nothing is made of them
            *reinterpret_cast<uint32_t*>(place) = all[0].words[0];
        }
    }
};

template <int kLoads>
void read_stretches(const Stream& stream, const Read& op) {
    constexpr int64_t kBytes = ReadStretch<kLoads>::kBytes;
    static_assert(kReadUnit % kBytes == 0, "a multiple of kReadUnit is read");
    for_each_block(stream, static_cast<int64_t>(op.bytes) / kBytes, 0,
                   ReadStretch<kLoads>{const_cast<char*>(op.from)});
}

}  // namespace

void activate(const Stream& stream, const Activate& op) {
    for_each(stream, static_cast<int64_t>(op.rows) * op.width, ActivatedValue{op});
}

void gather_rows(const Stream& stream, const GatherRows& op) {
    for_each(stream, static_cast<int64_t>(op.rows) * op.width, GatherValue{op});
}

void spread_columns(const Stream& stream, const SpreadColumns& op) {
    for_each(stream, static_cast<int64_t>(op.rows) * op.width, MinusInfinity{op.out});
    for_each(stream, static_cast<int64_t>(op.rows) * op.count, SpreadValue{op});
}

void soft_cap(const Stream& stream, const SoftCap& op) {
    for_each(stream, op.count, CapValue{op});
}

/// Both ways are stripes; they differ in their length.
void read(const Stream& stream, const Read& op) {
    if (op.in_stripes) {
        read_stretches<4>(stream, op);
    } else {
        read_stretches<16>(stream, op);
    }
}

}  // namespace outrider::cuda
