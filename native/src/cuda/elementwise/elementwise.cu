#include <algorithm>

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

/// A block reads units of memory one by one, or as many neighbouring rows of words as there are blocks.
template <bool kInStripes>
struct ReadUnits {
    static constexpr int kThreads = 512;
    static constexpr int kBlocksPerMultiprocessor = 4;
    static constexpr int64_t kRow = kThreads * 16;
    static constexpr int kLoads = kInStripes ? 4 : kReadUnit / kRow;  // of a thread, at once
    static constexpr uint32_t kSeldom = 0x9E3779B9;

    char* from;
    int64_t bytes;
    int64_t blocks;

    __device__ void operator()(const Block& block) const {
        const int64_t distance = kInStripes ? blocks * kRow : kRow;
        const int64_t first = block.index * (kInStripes ? kRow : kLoads * kRow) + block.thread * 16;
        uint32_t sum = 0;
        for (int64_t place = first; place < bytes; place += blocks * kLoads * kRow) {
            Words<4> all[kLoads];
#pragma unroll
            for (int load = 0; load < kLoads; ++load) {
                const int64_t own = place + load * distance;
                all[load] = load_words<4, true>(from + (own < bytes ? own : place));
            }
#pragma unroll
            for (const Words<4>& words : all) {
                sum ^= words.words[0] ^ words.words[1] ^ words.words[2] ^ words.words[3];
            }
        }
        if (sum == kSeldom) {  // or the loads would be left out, as nothing is made of them
            *reinterpret_cast<uint32_t*>(from + first) = sum;
        }
    }
};

template <bool kInStripes>
void read_units(const Stream& stream, const Read& op) {
    const auto units = static_cast<int64_t>(op.bytes / kReadUnit);
    const int64_t blocks = std::min<int64_t>(units, int64_t{8} * stream.multiprocessors());
    for_each_block(stream, blocks, 0,
                   ReadUnits<kInStripes>{const_cast<char*>(op.from), static_cast<int64_t>(op.bytes), blocks});
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

void read(const Stream& stream, const Read& op) {
    op.in_stripes ? read_units<true>(stream, op) : read_units<false>(stream, op);
}

}  // namespace outrider::cuda
