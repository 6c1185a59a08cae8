#include "cpu/attention/attention_part.h"

#include <algorithm>

namespace outrider::cpu {
namespace {

/// With this many parts per thread, an uneven distribution does not matter.
constexpr int64_t kManyParts = 4;

struct Rows {
    int64_t first;
    int64_t end;
};

/// Splits each sequence's rows into pieces of nearly equal size, none above `most`.
std::vector<Rows> row_pieces(const RowPlaces& places, int64_t most) {
    std::vector<Rows> pieces;
    for (int64_t first = 0, end = 0; first < places.rows; first = end) {
        while (end < places.rows && places.sequences[end] == places.sequences[first]) {
            ++end;
        }
        for (int64_t left = (end - first + most - 1) / most; left > 0; --left) {
            const int64_t next = first + (end - first + left - 1) / left;
            pieces.push_back({first, next});
            first = next;
        }
    }
    return pieces;
}

}  // namespace

std::vector<AttentionPart> attention_parts(const Attention& op, int threads) {
    const int64_t kv_heads = op.cache.num_kv_heads;
    const int64_t group = op.num_heads / kv_heads;
    const int64_t most_rows = std::min(kQueriesPerPart / group, op.places.rows * kv_heads / threads);
    const std::vector<Rows> pieces = row_pieces(op.places, std::max<int64_t>(1, most_rows));
    // With few parts, the heads of a group are split too, although each part then reads all keys and values.
    const auto undivided = static_cast<int64_t>(pieces.size()) * kv_heads;
    int64_t shares = 1;
    while (shares < group && undivided * shares < kManyParts * threads && undivided * shares % threads != 0) {
        ++shares;
    }
    std::vector<AttentionPart> parts;
    parts.reserve(undivided * shares);
    for (const Rows& rows : pieces) {
        for (int64_t kv_head = 0; kv_head < kv_heads; ++kv_head) {
            for (int64_t share = 0; share < shares; ++share) {
                const int64_t first_head = kv_head * group;
                parts.push_back({.kv_head = kv_head,
                                 .first_row = rows.first,
                                 .end_row = rows.end,
                                 .first_head = first_head + group * share / shares,
                                 .end_head = first_head + group * (share + 1) / shares});
            }
        }
    }
    return parts;
}

}  // namespace outrider::cpu
