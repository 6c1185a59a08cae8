// Sums of products along K for four-bit weights: exact within a group, and the groups added up in order, each
// lane of a vector for its own output feature. So neither the other rows nor the register block can be seen
// in a row's bits.
#pragma once

#include "cpu/int4_group.h"
#include "cpu/int8_dot.h"
#include "cpu/quantised_row.h"
#include "cpu/row_blocks.h"
#include "cpu/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Weights are packed as [strip of output features][group] of [4][feature][4 bytes] and [feature] scales in
/// bf16. The low half of byte j of four bytes i is k = 8 i + j of the group, the high half k = 8 i + 4 + j.
struct Int4Sums {
#if defined(__AVX512F__)
    static constexpr int kVectors = 4;   // to a strip
    static constexpr int kRowBlock = 3;  // of 32 registers 12 hold totals and 12 a group's sums
#else
    static constexpr int kVectors = 2;
    static constexpr int kRowBlock = 3;  // of 16 registers 6 hold a group's sums
#endif
    static constexpr int64_t kSlice = 16;  // groups: they and the next stay in the nearest cache
    static constexpr int kStrip = kVectors * kLanes;
    static constexpr int kEights = kInt4Group / 8;
    static constexpr int64_t kEightBytes = kStrip * 4;
    static constexpr int64_t kWeightBytes = kEights * kEightBytes;
    static constexpr int64_t kGroupBytes = kWeightBytes + kStrip * sizeof(BFloat16);
    static constexpr int kGroupLines = (kGroupBytes + kCacheLine - 1) / kCacheLine;

    /// Some groups of one strip's product.
    struct Slice {
        const char* input;  // [rows, input_stride]
        int64_t input_stride;
        const GroupScale* scales;  // of the first row; one row's are input_stride behind the other's
        const char* weights;       // [groups, kGroupBytes]
        int64_t groups;
        float* sums;  // [rows, kStrip]

        const GroupScale& scale(int64_t row, int64_t group) const {
            const char* of_row = reinterpret_cast<const char*>(scales) + row * input_stride;
            return reinterpret_cast<const GroupScale*>(of_row)[group];
        }
    };

    /// One group's products.
    template <int kRows>
    OUTRIDER_INLINE static void multiply_group(const char* values, int64_t stride, const char* weights,
                                               SmallSum (&sums)[kRows][kVectors]) {
        for (int eight = 0; eight < kEights; ++eight) {
            for (int half = 0; half < 2; ++half) {
                ByteVec four[kVectors];
                for (int vector = 0; vector < kVectors; ++vector) {
                    const auto both =
                        load_as<ByteVec>(weights + eight * kEightBytes + vector * sizeof(ByteVec));
                    four[vector] = half == 0 ? both & 15 : both >> 4;
                }
                for (int row = 0; row < kRows; ++row) {
                    const auto input = splat(load_as<int32_t>(values + row * stride + 8 * eight + 4 * half));
                    for (int vector = 0; vector < kVectors; ++vector) {
                        sums[row][vector].add(four[vector], bit_cast<ByteVec>(input));
                    }
                }
            }
        }
    }

    template <int kRows>
    static void accumulate(const Slice& slice, int64_t first_row, Ahead ahead) {
        float* sums = slice.sums + first_row * kStrip;
        Vec totals[kRows][kVectors];
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                totals[row][vector] = load(sums + row * kStrip + vector * kLanes);
            }
        }
        for (int64_t group = 0; group < slice.groups; ++group) {
            ahead.fetch(group * kGroupBytes);
            const char* weights = slice.weights + group * kGroupBytes;
            SmallSum products[kRows][kVectors];
            for (int row = 0; row < kRows; ++row) {
                for (int vector = 0; vector < kVectors; ++vector) {
                    products[row][vector].start(slice.scale(first_row + row, group).correction);
                }
            }
            multiply_group<kRows>(slice.input + first_row * slice.input_stride + group * kInt4Group,
                                  slice.input_stride, weights, products);
            const auto* scales = reinterpret_cast<const BFloat16*>(weights + kWeightBytes);
            for (int row = 0; row < kRows; ++row) {
                const GroupScale& input = slice.scale(first_row + row, group);
                for (int vector = 0; vector < kVectors; ++vector) {
                    const Vec sum =
                        __builtin_convertvector(products[row][vector].total(input.correction), Vec);
                    totals[row][vector] = multiply_add(sum * load(scales + vector * kLanes),
                                                       splat(input.scale), totals[row][vector]);
                }
            }
        }
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                store(sums + row * kStrip + vector * kLanes, totals[row][vector]);
            }
        }
    }

    /// Adds a strip's products with `rows` rows to `whole.sums`; `next` is what is read after it.
    static void add_strip(const Slice& whole, int64_t rows, const char* next) {
        for (int64_t group = 0; group < whole.groups; group += kSlice) {
            const Slice slice{whole.input + group * kInt4Group,
                              whole.input_stride,
                              whole.scales + group,
                              whole.weights + group * kGroupBytes,
                              smaller(kSlice, whole.groups - group),
                              whole.sums};
            const bool is_last = group + kSlice >= whole.groups;
            for_row_blocks<kRowBlock>(rows, is_last ? next : slice.weights + kSlice * kGroupBytes,
                                      kGroupLines, [&](auto count, int64_t first, Ahead ahead) {
                                          accumulate<count.value>(slice, first, ahead);
                                      });
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
