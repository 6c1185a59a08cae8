// Attention over the paged cache, for decoding, verification and prefill alike.
#pragma once

#include "cuda/runtime/stream.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

constexpr int kMaxHeadDim = 512;

/// The widest heads whose attention fits into a block's shared memory.
int max_head_dim(const Stream& stream);
/// The same of latent vectors beside so many numbers that turn; 0 if none fit.
int max_latent_rank(const Stream& stream, int turning);
size_t kv_block_bytes(const KvLayer& layer);
void attention(const Stream& stream, const Attention& op);

// One function per cache format, each in a file of its own, since they take long to compile.
void attend_f32(const Stream& stream, const Attention& op);
void attend_bf16(const Stream& stream, const Attention& op);
void attend_int8(const Stream& stream, const Attention& op);
void attend_fp8(const Stream& stream, const Attention& op);

size_t attention_scratch(int rows, int max_blocks, int num_heads, int head_dim);

}  // namespace outrider::cuda
