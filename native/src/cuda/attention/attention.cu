// Paged attention with a running softmax over spans of the cache. What a span gives a row depends on that row
// alone, and a row's spans are merged in their order: by the block that computes them all, or by a kernel
// behind blocks that compute one each. Both do the same operations, so that the number of rows may decide
// which it is.
#include <algorithm>

#include "cuda/attention/attention.h"
#include "cuda/attention/attention_span.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {
namespace {

constexpr int64_t kMostPartials = 1 << 10;  // rows times spans: beyond, there are blocks enough without

/// One dimension of one head's output, of what each span has given.
struct MergeSpans {
    static constexpr int kAhead = 8;

    Attention op;
    int spans;

    __device__ void operator()(int64_t index) const {
        const int64_t head_dim = op.cache.head_dim;
        const int64_t dim = index % head_dim;
        const int64_t head = index / head_dim % op.num_heads;
        const int64_t row = index / head_dim / op.num_heads;
        const int position = op.places.positions[row];
        if (position == kInactive) {
            return;
        }
        Softmax softmax{minus_infinity(), 0.0f};
        float total = 0.0f;
        const int end = position / kSpan + 1;
#pragma unroll 1
        for (int first = first_position(op, position) / kSpan; first < end; first += kAhead) {
            Softmax parts[kAhead];
            float values[kAhead];
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {  // all are on their way before the first is looked at
                const float* from = partial(op, spans, row, head, first + i < end ? first + i : end - 1);
                parts[i] = {from[0], from[1]};
                values[i] = from[2 + dim];
            }
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                if (first + i < end && !is_empty(parts[i])) {
                    const Merge merge(softmax, parts[i]);
                    total = merge.of(total, values[i]);
                    softmax = {merge.maximum, merge.of(softmax.sum, parts[i].sum)};
                }
            }
        }
        store(op.out.data, op.out.format, row * op.out.stride + head * head_dim + dim, total / softmax.sum);
    }
};

}  // namespace

void attention(const Stream& stream, const Attention& op) {
    const int all = spans_of(op.places.max_blocks);
    const int spans = all > 1 && op.places.rows * int64_t{all} <= kMostPartials ? all : 0;
    switch (op.cache.format) {
        case KvFormat::f32:
            attend_f32(stream, op, spans);
            break;
        case KvFormat::bf16:
            attend_bf16(stream, op, spans);
            break;
        case KvFormat::int8:
            attend_int8(stream, op, spans);
            break;
        case KvFormat::fp8:
            attend_fp8(stream, op, spans);
            break;
    }
    if (spans > 0) {
        for_each(stream, static_cast<int64_t>(op.places.rows) * op.num_heads * op.cache.head_dim,
                 MergeSpans{op, spans});
    }
}

size_t attention_scratch(int rows, int max_blocks, int num_heads, int head_dim) {
    const int64_t partials = std::min(rows * int64_t{spans_of(max_blocks)}, kMostPartials);
    return partials * num_heads * (head_dim + 2);
}

}  // namespace outrider::cuda
