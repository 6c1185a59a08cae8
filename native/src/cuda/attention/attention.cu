// Paged attention with a running softmax over spans of the cache. What a span gives a row depends on that row
// alone, and a row's spans are merged in their order: by the block that computes them all, or by a kernel
// behind blocks that compute one each. Both do the same operations, so that the number of rows may decide
// which it is.
#include <algorithm>

#include "cuda/attention/attention.h"
#include "cuda/attention/float_attention.cuh"
#include "cuda/attention/tile_attention.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/values/values.cuh"

namespace outrider::cuda {
namespace {

constexpr int kFewRows = 64;
constexpr int64_t kMostPartials = 1 << 10;  // rows times spans: beyond, there are blocks enough without

/// One dimension of one head's output, of what each span has given.
struct MergeSpans {
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
        for (int span = first_position(op, position) / kSpan; span <= position / kSpan; ++span) {
            const float* from = partial(op, spans, row, head, span);
            const Softmax part{from[0], from[1]};
            if (!is_empty(part)) {
                const Merge merge(softmax, part);
                total = merge.of(total, from[2 + dim]);
                softmax = {merge.maximum, merge.of(softmax.sum, part.sum)};
            }
        }
        store(op.out.data, op.out.format, row * op.out.stride + head * head_dim + dim, total / softmax.sum);
    }
};

template <typename Kernel>
void attend(const Stream& stream, const Kernel& kernel, const Grouping& grouping, size_t shared_bytes) {
    const int64_t groups = int64_t{kernel.op.places.rows} * grouping.num_head_groups(kernel.op);
    for_each_block(stream, groups * std::max(kernel.spans, 1), shared_bytes, kernel);
}

template <KvFormat kFormat, int kTiles>
void attend_in_tiles(const Stream& stream, const Attention& op, int spans) {
    const TileAttention<kFormat, kTiles> kernel(op, spans);
    attend(stream, kernel, kernel.grouping, TileAttentionScratch<kTiles>::bytes(op.cache.head_dim));
}

/// Chooses a number of tiles by speed only: all give the same bits. Many rows are long runs of a sequence's,
/// where more queries for each key and value are worth what registers and memory a block can have.
template <KvFormat kFormat>
void attend(const Stream& stream, const Attention& op, int spans) {
    if (!is_tiled(op.cache.format, op.cache.head_dim)) {
        attend(stream, FloatAttention<kFormat>{op, spans}, FloatAttention<kFormat>::grouping(),
               FloatScratch::bytes(op.cache.head_dim));
    } else if constexpr (kFormat != KvFormat::f32) {
        if (op.places.rows <= kFewRows) {
            attend_in_tiles<kFormat, 1>(stream, op, spans);
        } else if (op.cache.head_dim <= 128) {
            attend_in_tiles<kFormat, 3>(stream, op, spans);
        } else {
            attend_in_tiles<kFormat, 2>(stream, op, spans);
        }
    }
}

}  // namespace

void attention(const Stream& stream, const Attention& op) {
    const int all = spans_of(op.places.max_blocks);
    const int spans = all > 1 && op.places.rows * int64_t{all} <= kMostPartials ? all : 0;
    switch (op.cache.format) {
        case KvFormat::f32:
            attend<KvFormat::f32>(stream, op, spans);
            break;
        case KvFormat::bf16:
            attend<KvFormat::bf16>(stream, op, spans);
            break;
        case KvFormat::int8:
            attend<KvFormat::int8>(stream, op, spans);
            break;
        case KvFormat::fp8:
            attend<KvFormat::fp8>(stream, op, spans);
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
