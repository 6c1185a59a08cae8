#include "cuda/attention/attend.cuh"
#include "cuda/attention/attention.h"

namespace outrider::cuda {

void attention(const Stream& stream, const Attention& op) {
    switch (op.cache.format) {
        case KvFormat::f32:
            return attend_f32(stream, op);
        case KvFormat::bf16:
            return attend_bf16(stream, op);
        case KvFormat::int8:
            return attend_int8(stream, op);
        case KvFormat::fp8:
            return attend_fp8(stream, op);
    }
}

namespace {

bool fits(const Stream& stream, int head_dim) {
    using Kernel = FloatAttention<KvFormat::f32>;  // which needs more than the others
    constexpr Depth kLeast{1, kFewestStages, 1};
    return WorkList<Kernel::kThreads>::bytes() + Kernel::Scratch::bytes(head_dim, kLeast) <=
           stream.block_memory();
}

}  // namespace

int max_head_dim(const Stream& stream) {
    return fits(stream, kMaxHeadDim) ? kMaxHeadDim : kMaxHeadDim / 2;
}

int max_latent_rank(const Stream& stream, int turning) {
    int rank = kMaxHeadDim;
    while (rank > 0 && !fits(stream, rank + turning)) {
        rank -= kUnitDims;
    }
    return rank;
}

size_t kv_block_bytes(const KvLayer& layer) {
    return layer.num_kv_heads * head_bytes(layer);
}

size_t attention_scratch(int rows, int max_blocks, int num_heads, int head_dim) {
    const int64_t parts = most_parts(rows, max_blocks);
    return parts > 0 ? (kMostParts + parts * (head_dim + 2)) * num_heads : 0;
}

}  // namespace outrider::cuda
