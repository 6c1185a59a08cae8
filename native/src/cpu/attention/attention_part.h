// AttentionPart: one task of an attention.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/device/operations.h"

namespace outrider::cpu {

/// Largest head that attention keeps room for.
constexpr int kMaxHeadDim = 512;
/// Queries, each a head of a row, that go through keys and values together, while these are in the nearest
/// cache.
constexpr int kQueriesPerPart = 32;

/// Part of an attention: neighbouring rows of one sequence, and some query heads of one group.
struct AttentionPart {
    int64_t kv_head = 0;
    int64_t first_row = 0;
    int64_t end_row = 0;
    int64_t first_head = 0;
    int64_t end_head = 0;
};

/// Shares an attention out among threads. What a query's bits are does not depend on it: each has a chain of
/// operations of its own.
std::vector<AttentionPart> attention_parts(const Attention& op, int threads);

}  // namespace outrider::cpu
