// AttentionPart: one task of an attention.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/decoder/limits.h"
#include "outrider/device/operations.h"

namespace outrider::cpu {

/// The largest supported head dimension, and rank of latent vectors.
constexpr int kMaxHeadDim = 512;
/// The number of queries (heads of rows) that use a chunk of keys and values while it is in the L1 cache.
constexpr int kQueriesPerPart = 32;

/// Part of an attention: neighbouring rows of one sequence, and some query heads of one group.
struct AttentionPart {
    int64_t kv_head = 0;
    int64_t first_row = 0;
    int64_t end_row = 0;
    int64_t first_head = 0;
    int64_t end_head = 0;
};

/// Splits an attention among threads. The split does not change a query's result: each query has its own
/// sequence of operations.
std::vector<AttentionPart> attention_parts(const Attention& op, int threads);

}  // namespace outrider::cpu
