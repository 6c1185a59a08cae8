// The two products of a low-rank update. Each sum runs over its terms in one order, whatever is computed
// beside it: blocks of rows only share what they load.
#pragma once

#include "cpu/low_rank/low_rank_part.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

constexpr int kSharingRows = 4;    // of a block that shares what it loads of the weights
constexpr int kSharedRanks = 2;    // as many sums as a lone row has
constexpr int kSharedVectors = 2;  // likewise
constexpr int kLoneVectors = 8;

/// inner[row, rank] = scale * (down[rank] . input[row]), of neighbouring ranks.
template <int kRows, int kRanks, typename T, typename U>
OUTRIDER_INLINE void multiply_down(const LowRankWeight& weight, const U* const* inputs, int64_t rank,
                                   float* inner) {
    const T* down = static_cast<const T*>(weight.down) + rank * weight.in_stride;
    Vec sums[kRows][kRanks] = {};
    for (int64_t at = 0; at < weight.in_stride; at += kLanes) {
        for (int each = 0; each < kRanks; ++each) {
            const Vec weights = load(down + each * weight.in_stride + at);
            for (int row = 0; row < kRows; ++row) {
                sums[row][each] = multiply_add(load(inputs[row] + at), weights, sums[row][each]);
            }
        }
    }
    for (int row = 0; row < kRows; ++row) {
        for (int each = 0; each < kRanks; ++each) {
            inner[row * weight.rank + rank + each] = weight.scale * sum_lanes(sums[row][each]);
        }
    }
}

/// out[row, column] += the sum over ranks of inner[row, rank] * up[rank, column], of neighbouring columns.
template <int kRows, int kVectors, typename T>
OUTRIDER_INLINE void multiply_up(const LowRankWeight& weight, const float* inner, int64_t column,
                                 float* const* outs) {
    const T* up = static_cast<const T*>(weight.up) + column;
    Vec sums[kRows][kVectors] = {};
    for (int rank = 0; rank < weight.rank; ++rank) {
        for (int each = 0; each < kVectors; ++each) {
            const Vec weights = load(up + rank * weight.up_stride + each * kLanes);
            for (int row = 0; row < kRows; ++row) {
                sums[row][each] =
                    multiply_add(splat(inner[row * weight.rank + rank]), weights, sums[row][each]);
            }
        }
    }
    for (int row = 0; row < kRows; ++row) {
        for (int each = 0; each < kVectors; ++each) {
            float* out = outs[row] + column + each * kLanes;
            const int64_t count = weight.columns - column - each * kLanes;
            store_first(out, load_first(out, count) + sums[row][each], count);
        }
    }
}

template <typename T, typename U>
inline void low_rank_down_of(const LowRank& op, const LowRankPart& part) {
    const LowRankUpdate& update = *part.update;
    const auto input = [&](int64_t row) {
        return static_cast<const U*>(op.input.data) + update.rows[row] * op.input.stride;
    };
    int64_t row = part.first_row;
    for (; row + kSharingRows <= part.end_row; row += kSharingRows) {
        const U* inputs[kSharingRows];
        for (int each = 0; each < kSharingRows; ++each) {
            inputs[each] = input(row + each);
        }
        float* inner = update.inner + row * update.weight->rank;
        for (int64_t rank = part.first; rank < part.end; rank += kSharedRanks) {
            multiply_down<kSharingRows, kSharedRanks, T>(*update.weight, inputs, rank, inner);
        }
    }
    for (; row < part.end_row; ++row) {
        const U* const inputs[] = {input(row)};
        float* inner = update.inner + row * update.weight->rank;
        multiply_down<1, kRankAlignment, T>(*update.weight, inputs, part.first, inner);
    }
}

template <typename T>
inline void low_rank_up_of(const LowRank& op, const LowRankPart& part) {
    static_assert(kUpAlignment % (kLoneVectors * kLanes) == 0, "blocks end within a row of up");
    const LowRankUpdate& update = *part.update;
    const auto out = [&](int64_t row) {
        return op.out + update.rows[row] * op.out_stride + update.weight->first_column;
    };
    int64_t row = part.first_row;
    for (; row + kSharingRows <= part.end_row; row += kSharingRows) {
        float* outs[kSharingRows];
        for (int each = 0; each < kSharingRows; ++each) {
            outs[each] = out(row + each);
        }
        const float* inner = update.inner + row * update.weight->rank;
        for (int64_t column = part.first; column < part.end; column += kSharedVectors * kLanes) {
            multiply_up<kSharingRows, kSharedVectors, T>(*update.weight, inner, column, outs);
        }
    }
    for (; row < part.end_row; ++row) {
        float* const outs[] = {out(row)};
        const float* inner = update.inner + row * update.weight->rank;
        for (int64_t column = part.first; column < part.end; column += kLoneVectors * kLanes) {
            multiply_up<1, kLoneVectors, T>(*update.weight, inner, column, outs);
        }
    }
}

/// float32 adapters are those of models whose activations are float32 too.
inline void low_rank_down(const LowRank& op, const LowRankPart& part) {
    if (part.update->weight->format == Format::f32) {
        low_rank_down_of<float, float>(op, part);
    } else if (op.input.format == Format::f32) {
        low_rank_down_of<BFloat16, float>(op, part);
    } else {
        low_rank_down_of<BFloat16, BFloat16>(op, part);
    }
}

inline void low_rank_up(const LowRank& op, const LowRankPart& part) {
    if (part.update->weight->format == Format::f32) {
        low_rank_up_of<float>(op, part);
    } else {
        low_rank_up_of<BFloat16>(op, part);
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
