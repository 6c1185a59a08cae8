// Int4MicroPanel: a micro-panel of four-bit weights. Sums are integers along all of K, with each output
// feature in a lane of its own, so a row's result depends neither on the other rows nor on the register
// block.
#pragma once

#include "cpu/product/int4/int4_group.h"
#include "cpu/product/int4/int4_layout.h"
#include "cpu/product/int4/int4_unpacking.h"
#include "cpu/product/int4_dot.h"
#include "cpu/product/integer_product.h"
#include "cpu/product/quantised_row.h"
#include "cpu/product/row_blocks.h"
#include "cpu/vec/vec.h"

#include OUTRIDER_INT8_SUMS  // Int8Sums

namespace outrider::cpu::OUTRIDER_ISA {

/// With few rows, each block of rows unpacks the numbers itself; with many, Int4Unpacking unpacks them once.
struct Int4MicroPanel : Int4Layout {
    static constexpr int64_t kMostRows = Int8Sums::kMostRows;
    static constexpr int64_t kManyRows = RegisterBlocking::kUnpackedRows;
    static constexpr float kLargest = Int4Group::kLargest;
    static constexpr int kRowBlock = RegisterBlocking::kInt4Rows;
    static constexpr int64_t kSlice = 16;  // groups: these fit into the L1 cache

    static void store_row(char* micro_panel, int64_t column, const float* values, int64_t width,
                          float factor) {
        for (int64_t first = 0; first < width; first += kInt4Group) {
            float scaled[kInt4Group] = {};
            for (int64_t k = 0; k < smaller(kInt4Group, width - first); ++k) {
                scaled[k] = values[first + k] * factor;
            }
            const Int4Group group(scaled);
            for (int k = 0; k < kInt4Group; ++k) {
                char& byte = micro_panel[offset(column, first + k)];
                const int kept = byte & (0xF0 >> shift(k));
                byte = static_cast<char>(kept | (group.numbers[k] + kInt4Offset) << shift(k));
            }
            char* pair = micro_panel + pair_offset(column, first);
            pair[0] = static_cast<char>(group.step);
            pair[1] = static_cast<char>(group.offset);
        }
    }

    static int number(const char* micro_panel, int64_t column, int64_t k) {
        const auto* pair = reinterpret_cast<const int8_t*>(micro_panel + pair_offset(column, k));
        const int number = (micro_panel[offset(column, k)] >> shift(k) & 15) - kInt4Offset;
        return pair[0] * number + pair[1];
    }

    /// The quantised row is followed by a GroupInput for each group.
    static size_t input_bytes(int in_features) {
        return QuantisedRow::bytes(in_features) + groups(in_features) * sizeof(GroupInput);
    }
    static void prepare_row(const float* values, int in_features, void* to) {
        quantise_row(values, in_features, kInt8Offset, to);
        const auto* rounded = static_cast<const int8_t*>(to);
        char* inputs = static_cast<char*>(to) + QuantisedRow::bytes(in_features);
        for (int64_t group = 0; group < groups(in_features); ++group) {
            IntVec lanes = {};
            for (int k = 0; k < kInt4Group; k += kLanes) {
                lanes += widen(load_as<SmallVec>(rounded + group * kInt4Group + k));
            }
            const auto sums = HalfSums::of(lanes);
            store_as(inputs + group * sizeof(GroupInput), GroupInput(sums.first, sums.last));
        }
    }

    /// Some groups of one micro-panel's product.
    struct Slice {
        const char* values;  // values of the first row; the next row is input_stride bytes further
        const char* inputs;  // GroupInput of each group, likewise
        int64_t input_stride;
        const char* weights;  // [groups, kGroupBytes]
        int64_t groups;
        int32_t* sums;  // [rows, kColumns]

        OUTRIDER_INLINE const GroupInput& input(int64_t row, int64_t group) const {
            return reinterpret_cast<const GroupInput*>(inputs + row * input_stride)[group];
        }
    };

    /// Computes the products of one group.
    template <int kRows>
    OUTRIDER_INLINE static void multiply_group(const char* values, int64_t stride, const char* weights,
                                               GroupSum (&sums)[kRows][kVectors]) {
#pragma GCC unroll RegisterBlocking::kInt4Words
        for (int word = 0; word < kWords; ++word) {
            for (int half = 0; half < 2; ++half) {
                ByteVec four[kVectors];
                OUTRIDER_UNROLLED
                for (int vector = 0; vector < kVectors; ++vector) {
                    const auto both =
                        load_as<ByteVec>(weights + word * kWordBytes + vector * sizeof(ByteVec));
                    four[vector] = halves(both, half);
                }
                OUTRIDER_UNROLLED
                for (int row = 0; row < kRows; ++row) {
                    const auto input = splat(load_as<int32_t>(values + row * stride + 8 * word + 4 * half));
                    OUTRIDER_UNROLLED
                    for (int vector = 0; vector < kVectors; ++vector) {
                        sums[row][vector].add(four[vector], bit_cast<ByteVec>(input));
                    }
                }
            }
        }
    }

    template <int kRows>
    static void accumulate(const Slice& slice, int64_t first_row, Ahead ahead) {
        int32_t* sums = slice.sums + first_row * kColumns;
        IntVec totals[kRows][kVectors];
        Int8Sums::load_sums(sums, totals);
        int64_t group = 0;
        do {
            ahead.fetch();
            add_group<kRows>(slice, first_row, group, totals);
        } while (++group < slice.groups);
        Int8Sums::store_sums(totals, sums);
    }

    template <int kRows>
    OUTRIDER_INLINE static void add_group(const Slice& slice, int64_t first_row, int64_t group,
                                          IntVec (&totals)[kRows][kVectors]) {
        const char* weights = slice.weights + group * kGroupBytes;
        GroupSum products[kRows][kVectors];
        OUTRIDER_UNROLLED
        for (int row = 0; row < kRows; ++row) {
            OUTRIDER_UNROLLED
            for (int vector = 0; vector < kVectors; ++vector) {
                products[row][vector].start(slice.input(first_row + row, group).start);
            }
        }
        multiply_group<kRows>(slice.values + first_row * slice.input_stride + group * kInt4Group,
                              slice.input_stride, weights, products);
        OUTRIDER_UNROLLED
        for (int vector = 0; vector < kVectors; ++vector) {
            const PairVec steps_and_offsets =
                widen(load_as<SmallPairVec>(weights + kNumberBytes + vector * sizeof(SmallPairVec)));
            OUTRIDER_UNROLLED
            for (int row = 0; row < kRows; ++row) {
                totals[row][vector] = products[row][vector].added(totals[row][vector], steps_and_offsets,
                                                                  slice.input(first_row + row, group).upper);
            }
        }
    }

    template <bool kIsForMany>
    static void add(const MicroPanelRows& part) {
        if constexpr (kIsForMany) {
            Int4Unpacking::add(part);
        } else {
            add_packed(part);
        }
    }

    /// Each block of rows unpacks the numbers itself.
    static void add_packed(const MicroPanelRows& part) {
        for (int64_t row = 0; row < part.rows;
             ++row) {  // the correction is for weights stored with an offset
            const RowScale* scale =
                QuantisedRow::scale(part.input + row * part.input_stride, part.in_features);
            for (int vector = 0; vector < kVectors; ++vector) {
                store_as(part.sums + row * kColumns + vector * kLanes, splat(-scale->correction));
            }
        }
        const int64_t count = groups(part.in_features);
        const char* inputs = part.input + QuantisedRow::bytes(part.in_features);
        for (int64_t group = 0; group < count; group += kSlice) {
            const Slice slice{part.input + group * kInt4Group,
                              inputs + group * static_cast<int64_t>(sizeof(GroupInput)),
                              part.input_stride,
                              part.micro_panel + group * kGroupBytes,
                              smaller(kSlice, count - group),
                              part.sums};
            const bool is_last = group + kSlice >= count;
            for_row_blocks<kRowBlock>(
                part.rows, is_last ? part.next_micro_panel : slice.weights + kSlice * kGroupBytes,
                slice.groups * kGroupBytes, kGroupLines,
                [&](auto rows, int64_t first, Ahead ahead) { accumulate<rows.value>(slice, first, ahead); });
        }
    }

    static int64_t multiply_registers(int64_t rounds) {
        if constexpr (Int8Sums::kIsTiled) {
            return Int8Sums::multiply_registers(rounds);
        } else {
            return OUTRIDER_ISA::multiply_registers<GroupDot<GroupSum>>(rounds);
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
