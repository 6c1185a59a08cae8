// AttentionPart: one task of an attention.
#pragma once

#include <cstdint>

namespace outrider::cpu {

/// Largest head that attention keeps room for.
constexpr int kMaxHeadDim = 512;

/// Part of an attention: some rows, and some query heads of one group.
struct AttentionPart {
    int64_t kv_head = 0;
    int64_t first_row = 0;
    int64_t end_row = 0;
    int64_t first_head = 0;
    int64_t end_head = 0;
};

}  // namespace outrider::cpu
