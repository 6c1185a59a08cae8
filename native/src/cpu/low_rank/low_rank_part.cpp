#include "cpu/low_rank/low_rank_part.h"

#include <algorithm>

namespace outrider::cpu {
namespace {

constexpr int64_t kRowsPerPart = 32;
constexpr int64_t kColumnsPerPart = 512;

void add_parts(const LowRankUpdate& update, int64_t size, int64_t most, std::vector<LowRankPart>& parts) {
    for (int64_t row = 0; row < update.count; row += kRowsPerPart) {
        const int64_t end_row = std::min<int64_t>(update.count, row + kRowsPerPart);
        for (int64_t first = 0; first < size; first += most) {
            parts.push_back({&update, row, end_row, first, std::min(size, first + most)});
        }
    }
}

}  // namespace

std::vector<LowRankPart> down_parts(const LowRank& op) {
    std::vector<LowRankPart> parts;
    for (const LowRankUpdate& update : op.updates) {
        add_parts(update, update.weight->rank, kRankAlignment, parts);
    }
    return parts;
}

std::vector<LowRankPart> up_parts(const LowRank& op) {
    static_assert(kColumnsPerPart % kUpAlignment == 0, "a part is whole blocks of columns");
    std::vector<LowRankPart> parts;
    for (const LowRankUpdate& update : op.updates) {
        add_parts(update, update.weight->columns, kColumnsPerPart, parts);
    }
    return parts;
}

}  // namespace outrider::cpu
