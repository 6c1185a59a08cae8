// The two products of a low-rank update. Each sum adds its terms in one order, whatever is computed beside
// it: rows of a block only share loads.
#pragma once

#include "cpu/low_rank/low_rank_part.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

constexpr int kSums = kLanes == 16 ? 16 : 8;  // at most half of the registers

/// The number of ranks, or vectors of columns, that are computed at once for a block of `rows` rows, which
/// share the loads of the weights.
constexpr int shared(int rows) {
    return kSums / rows < kRankAlignment ? kSums / rows : kRankAlignment;
}

/// inner[row, rank] = scale * (down[rank] . input[row]), for kRanks neighbouring ranks of one block.
template <int kRows, int kRanks, typename T, typename U>
OUTRIDER_INLINE void multiply_down(const LowRankWeight& weight, const U* const* inputs, int64_t rank,
                                   float* inner) {
    const int64_t in_block = rank % kRankAlignment;
    const T* down =
        static_cast<const T*>(weight.down) + (rank - in_block) * weight.in_stride + in_block * kDownBlock;
    Vec sums[kRows][kRanks] = {};
    for (int64_t block = 0; block < weight.in_stride;
         block += kDownBlock, down += kRankAlignment * kDownBlock) {
        for (int at = 0; at < kDownBlock; at += kLanes) {
            Vec values[kRows];
            OUTRIDER_UNROLLED
            for (int row = 0; row < kRows; ++row) {
                values[row] = load(inputs[row] + block + at);
            }
            OUTRIDER_UNROLLED
            for (int each = 0; each < kRanks; ++each) {
                const Vec weights = load(down + each * kDownBlock + at);
                OUTRIDER_UNROLLED
                for (int row = 0; row < kRows; ++row) {
                    sums[row][each] = multiply_add(values[row], weights, sums[row][each]);
                }
            }
        }
    }
    OUTRIDER_UNROLLED
    for (int row = 0; row < kRows; ++row) {
        OUTRIDER_UNROLLED
        for (int each = 0; each < kRanks; ++each) {
            inner[row * weight.rank + rank + each] = weight.scale * sum_lanes(sums[row][each]);
        }
    }
}

/// out[row, column] += the sum over ranks of inner[row, rank] * up[rank, column], for neighbouring columns of
/// one block.
template <int kRows, int kVectors, typename T>
OUTRIDER_INLINE void multiply_up(const LowRankWeight& weight, const float* inner, int64_t column,
                                 float* const* outs) {
    const int64_t in_block = column % kUpAlignment;
    const T* up = static_cast<const T*>(weight.up) + (column - in_block) * weight.rank + in_block;
    Vec sums[kRows][kVectors] = {};
    for (int rank = 0; rank < weight.rank; ++rank, up += kUpAlignment) {
        OUTRIDER_UNROLLED
        for (int each = 0; each < kVectors; ++each) {
            const Vec weights = load(up + each * kLanes);
            OUTRIDER_UNROLLED
            for (int row = 0; row < kRows; ++row) {
                sums[row][each] =
                    multiply_add(splat(inner[row * weight.rank + rank]), weights, sums[row][each]);
            }
        }
    }
    OUTRIDER_UNROLLED
    for (int row = 0; row < kRows; ++row) {
        OUTRIDER_UNROLLED
        for (int each = 0; each < kVectors; ++each) {
            float* out = outs[row] + column + each * kLanes;
            const int64_t count = weight.columns - column - each * kLanes;
            store_first(out, load_first(out, count) + sums[row][each], count);
        }
    }
}

/// Computes blocks of kRows rows while enough rows are left; returns the first remaining row.
template <int kRows, typename T, typename U>
OUTRIDER_INLINE int64_t down_rows(const LowRank& op, const LowRankPart& part, int64_t row) {
    const LowRankUpdate& update = *part.update;
    for (; row + kRows <= part.end_row; row += kRows) {
        const U* inputs[kRows];
        for (int each = 0; each < kRows; ++each) {
            inputs[each] = static_cast<const U*>(op.input.data) + update.rows[row + each] * op.input.stride;
        }
        float* inner = update.inner + row * update.weight->rank;
        for (int64_t rank = part.first; rank < part.end; rank += shared(kRows)) {
            multiply_down<kRows, shared(kRows), T>(*update.weight, inputs, rank, inner);
        }
    }
    return row;
}

/// The same for the up product.
template <int kRows, typename T>
OUTRIDER_INLINE int64_t up_rows(const LowRank& op, const LowRankPart& part, int64_t row) {
    static_assert(kUpAlignment % (shared(kRows) * kLanes) == 0, "neighbouring columns are of one block");
    const LowRankUpdate& update = *part.update;
    for (; row + kRows <= part.end_row; row += kRows) {
        float* outs[kRows];
        for (int each = 0; each < kRows; ++each) {
            outs[each] = op.out + update.rows[row + each] * op.out_stride + update.weight->first_column;
        }
        const float* inner = update.inner + row * update.weight->rank;
        for (int64_t column = part.first; column < part.end; column += shared(kRows) * kLanes) {
            multiply_up<kRows, shared(kRows), T>(*update.weight, inner, column, outs);
        }
    }
    return row;
}

template <typename T, typename U>
inline void low_rank_down_of(const LowRank& op, const LowRankPart& part) {
    const int64_t of_four = down_rows<4, T, U>(op, part, part.first_row);
    down_rows<1, T, U>(op, part, down_rows<2, T, U>(op, part, of_four));
}

template <typename T>
inline void low_rank_up_of(const LowRank& op, const LowRankPart& part) {
    const int64_t of_four = up_rows<4, T>(op, part, part.first_row);
    up_rows<1, T>(op, part, up_rows<2, T>(op, part, of_four));
}

/// float32 adapters only occur with float32 activations.
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
