// Int4MicroPanel: a micro-panel of weights in four bits each. Sums are integers along all of K, each lane of
// a vector for its own output feature, so neither the other rows nor the register block can be seen in a
// row's bits.
#pragma once

#include "cpu/product/int4_dot.h"
#include "cpu/product/int4_group.h"
#include "cpu/product/int8_dot.h"
#include "cpu/product/integer_product.h"
#include "cpu/product/quantised_row.h"
#include "cpu/product/row_blocks.h"
#include "cpu/product/step_sums.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// [group] of [4][output feature][4 bytes] and [output feature][2]. The low half of byte j of four bytes i is
/// the number k = 8 i + j of the group, the high half k = 8 i + 4 + j; the last two bytes are the group's
/// step and offset.
struct Int4MicroPanel {
    using Dot = GroupDot<GroupSum>;
    static constexpr float kLargest = Int4Group::kLargest;
    static constexpr int kVectors = RegisterBlocking::kVectors;
    static constexpr int kRowBlock = RegisterBlocking::kInt4Rows;
    static constexpr int64_t kSlice = 16;  // groups: they and the next stay in the nearest cache
    static constexpr int kColumns = kVectors * kLanes;
    static constexpr int kWords = kInt4Group / 8;
    static constexpr int64_t kWordBytes = kColumns * 4;
    static constexpr int64_t kNumberBytes = kWords * kWordBytes;
    static constexpr int64_t kGroupBytes = kNumberBytes + kColumns * 2;
    static constexpr int kGroupLines = (kGroupBytes + kCacheLine - 1) / kCacheLine;

    // Of weights that are unpacked for many rows at once.
    using Steps = StepSums<Int8Dot>;
    static constexpr int64_t kGroupSteps = kInt4Group / Steps::kStepBytes;
    static constexpr int64_t kUnpackedGroups = Steps::kSlice / kGroupSteps;
    static constexpr int kStepLines = static_cast<int>((kGroupLines + kGroupSteps - 1) / kGroupSteps);

    static int64_t groups(int64_t in_features) { return (in_features + kInt4Group - 1) / kInt4Group; }
    static int64_t bytes(int64_t in_features) { return groups(in_features) * kGroupBytes; }

    /// Where a number's byte is.
    static int64_t offset(int64_t column, int64_t k) {
        return k / kInt4Group * kGroupBytes + k % kInt4Group / 8 * kWordBytes + column * 4 + k % 4;
    }
    static int shift(int64_t k) { return k % 8 / 4 * 4; }
    /// Where the step and the offset of a group are.
    static int64_t pair_offset(int64_t column, int64_t k) {
        return k / kInt4Group * kGroupBytes + kNumberBytes + column * 2;
    }

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

    /// Behind the row is a GroupInput for each group.
    static size_t input_bytes(int in_features) {
        return QuantisedRow::bytes(in_features) + groups(in_features) * sizeof(GroupInput);
    }
    static void prepare_row(const float* values, int in_features, void* to) {
        quantise_row(values, in_features, kInt8Offset, to);
        const auto* rounded = static_cast<const int8_t*>(to);
        char* inputs = static_cast<char*>(to) + QuantisedRow::bytes(in_features);
        for (int64_t group = 0; group < groups(in_features); ++group) {
            int32_t sum = 0;
            for (int k = 0; k < kInt4Group; ++k) {
                sum += rounded[group * kInt4Group + k];
            }
            store_as(inputs + group * sizeof(GroupInput), GroupInput(sum));
        }
    }

    /// Some groups of one micro-panel's product.
    struct Slice {
        const char* values;  // of the first row; one row's are input_stride behind the other's
        const char* inputs;  // the groups' GroupInputs, likewise
        int64_t input_stride;
        const char* weights;  // [groups, kGroupBytes]
        int64_t groups;
        int32_t* sums;  // [rows, kColumns]

        OUTRIDER_INLINE const GroupInput& input(int64_t row, int64_t group) const {
            return reinterpret_cast<const GroupInput*>(inputs + row * input_stride)[group];
        }
    };

    /// One group's products.
    template <int kRows>
    OUTRIDER_INLINE static void multiply_group(const char* values, int64_t stride, const char* weights,
                                               GroupSum (&sums)[kRows][kVectors]) {
        for (int word = 0; word < kWords; ++word) {
            for (int half = 0; half < 2; ++half) {
                ByteVec four[kVectors];
                for (int vector = 0; vector < kVectors; ++vector) {
                    const auto both =
                        load_as<ByteVec>(weights + word * kWordBytes + vector * sizeof(ByteVec));
                    four[vector] = half == 0 ? both & 15 : both >> 4;
                }
                for (int row = 0; row < kRows; ++row) {
                    const auto input = splat(load_as<int32_t>(values + row * stride + 8 * word + 4 * half));
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
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                totals[row][vector] = load_as<IntVec>(sums + row * kColumns + vector * kLanes);
            }
        }
        for (int64_t group = 0; group < slice.groups; ++group) {
            ahead.fetch();
            add_group<kRows>(slice, first_row, group, totals);
        }
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                store_as(sums + row * kColumns + vector * kLanes, totals[row][vector]);
            }
        }
    }

    template <int kRows>
    OUTRIDER_INLINE static void add_group(const Slice& slice, int64_t first_row, int64_t group,
                                          IntVec (&totals)[kRows][kVectors]) {
        const char* weights = slice.weights + group * kGroupBytes;
        GroupSum products[kRows][kVectors];
        for (int row = 0; row < kRows; ++row) {
            for (int vector = 0; vector < kVectors; ++vector) {
                products[row][vector].start(slice.input(first_row + row, group).start);
            }
        }
        multiply_group<kRows>(slice.values + first_row * slice.input_stride + group * kInt4Group,
                              slice.input_stride, weights, products);
        for (int vector = 0; vector < kVectors; ++vector) {
            const auto pairs = load_as<SmallPairVec>(weights + kNumberBytes + vector * sizeof(SmallPairVec));
            const PairVec steps_and_offsets = __builtin_convertvector(pairs, PairVec);
            for (int row = 0; row < kRows; ++row) {
                totals[row][vector] = products[row][vector].added(totals[row][vector], steps_and_offsets,
                                                                  slice.input(first_row + row, group).upper);
            }
        }
    }

    /// Writes the integers that one group's weights stand for, as Int8Dot reads them.
    /// # to: [kGroupSteps, output features, 4]
    OUTRIDER_INLINE static void unpack(const char* weights, char* to) {
        for (int vector = 0; vector < kVectors; ++vector) {
            const char* words = weights + vector * sizeof(ByteVec);
            const BitsVec pair = __builtin_convertvector(
                load_as<HalfVec>(weights + kNumberBytes + vector * sizeof(HalfVec)), BitsVec);
            const BitsVec step = pair & 0xFF;
            const BitsVec offset = ((pair >> 8) - step * kInt4Offset + kInt8Offset) & 0xFF;
            const auto steps = bit_cast<PairVec>(step * 0x00010001);
            const auto offsets = bit_cast<ByteVec>(offset * 0x01010101);
            // A number, 0 ... 15, times a step fits into a byte: one product of 16 bits is those of two
            // bytes.
            const auto store_words = [&](ByteVec numbers, int64_t group_step) {
                const auto products = bit_cast<ByteVec>(bit_cast<PairVec>(numbers) * steps);
                store_as(to + group_step * Steps::kMicroPanelStepBytes + vector * sizeof(ByteVec),
                         products + offsets);
            };
            for (int word = 0; word < kWords; ++word) {
                const auto both = load_as<ByteVec>(words + word * kWordBytes);
                store_words(both & 15, 2 * word);
                store_words(both >> 4, 2 * word + 1);
            }
        }
    }

    /// Weights are unpacked once for all rows.
    static void add_unpacked(const MicroPanelRows& part) {
        alignas(kCacheLine) char unpacked[kUnpackedGroups * kGroupSteps * Steps::kMicroPanelStepBytes];
        const int64_t count = groups(part.in_features);
        for (int64_t group = 0; group < count; group += kUnpackedGroups) {
            const int64_t some = smaller(kUnpackedGroups, count - group);
            const char* weights = part.micro_panel + group * kGroupBytes;
            for (int64_t index = 0; index < some; ++index) {
                unpack(weights + index * kGroupBytes,
                       unpacked + index * kGroupSteps * Steps::kMicroPanelStepBytes);
            }
            const Steps::Slice slice{part.input + group * kInt4Group, part.input_stride, unpacked,
                                     some * kGroupSteps, part.sums};
            const bool is_last = group + kUnpackedGroups >= count;
            for_row_blocks<Steps::kRowBlock>(
                part.rows, is_last ? part.next_micro_panel : weights + some * kGroupBytes, some * kGroupBytes,
                kStepLines, [&](auto rows, int64_t first, Ahead ahead) {
                    Steps::accumulate<rows.value>(slice, first, ahead);
                });
        }
    }

    static void add(const MicroPanelRows& part) {
        if (part.rows >= RegisterBlocking::kUnpackedRows) {
            add_unpacked(part);
        } else {
            add_packed(part);
        }
    }

    /// Each block of rows takes its numbers out of the words by itself.
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
};

}  // namespace outrider::cpu::OUTRIDER_ISA
