// GroupedMicroPanel: a micro-panel of a grouped weight: its integers with their scales.
#pragma once

#include "cpu/product/group_numbers.h"
#include "cpu/product/quantised_row.h"
#include "cpu/product/row_blocks.h"
#include "cpu/vec/vec.h"

#include OUTRIDER_INT8_SUMS  // Int8Sums

namespace outrider::cpu::OUTRIDER_ISA {

/// For each block: float16 scales and, if any, offsets of [output feature]. Then for each group: numbers as
/// [word][output feature][4 bytes] and, if blocks have several groups, the steps of scales and of offsets, a
/// byte per output feature. Word i, part p, byte j is the number k = (kParts * i + p) * 4 + j of the group.
template <WeightKind kKind>
struct GroupedMicroPanel {
    using Numbers = typename NumbersOf<kKind>::Type;
    using Sum = typename Numbers::Sum;
    using Dot = GroupDot<Sum>;

    static constexpr Grouping kGroups = kKind.groups;
    static constexpr bool kHasSteps = kGroups.has_steps();
    static constexpr int kVectors = RegisterBlocking::kVectors;
    static constexpr int kRowBlock = RegisterBlocking::kRows;
    static constexpr int kColumns = kVectors * kLanes;
    static constexpr int64_t kMostRows = Int8Sums::kMostRows;
    /// Fewer rows fit into two row blocks.
    static constexpr int64_t kManyRows = Int8Sums::kIsTiled ? 2 * kRowBlock + 1 : kNever;
    static constexpr int kWordInputs = 4 * Numbers::kParts;
    static constexpr int kWords = kGroups.size / kWordInputs;
    static constexpr int64_t kWordBytes = kColumns * 4;
    static constexpr int64_t kNumberBytes = kWords * kWordBytes;
    static constexpr int kKindsOfScales = kGroups.has_offsets ? 2 : 1;
    static constexpr int64_t kUnitBytes = kColumns * 2;
    static constexpr int64_t kHeadBytes = kUnitBytes * kKindsOfScales;
    static constexpr int64_t kGroupBytes = kNumberBytes + (kHasSteps ? kColumns * kKindsOfScales : 0);
    static constexpr int64_t kGroupsOfBlock = kGroups.block / kGroups.size;
    static constexpr int64_t kBlockBytes = kHeadBytes + kGroupsOfBlock * kGroupBytes;
    static constexpr int64_t kSliceBytes = 16 << 10;  // fits into the L1 cache
    static constexpr int64_t kSlice = kSliceBytes > 2 * kBlockBytes ? kSliceBytes / kBlockBytes : 1;
    static constexpr int kFetchedLines = (kBlockBytes / kGroupsOfBlock + kCacheLine - 1) / kCacheLine;

    static int64_t bytes(int64_t in_features) { return in_features / kGroups.block * kBlockBytes; }

    static int64_t block_offset(int64_t k) { return k / kGroups.block * kBlockBytes; }
    static int64_t group_offset(int64_t k) {
        return block_offset(k) + kHeadBytes + k % kGroups.block / kGroups.size * kGroupBytes;
    }
    /// The offset of a number's byte.
    static int64_t offset(int64_t column, int64_t k) {
        return group_offset(k) + k % kGroups.size / kWordInputs * kWordBytes + column * 4 + k % 4;
    }
    static int part(int64_t k) { return static_cast<int>(k % kWordInputs / 4); }

    static void store_row(char* micro_panel, int64_t column, int64_t width, const GroupedRows& values) {
        for (int64_t k = 0; k < width; k += kGroups.block) {
            char* units = micro_panel + block_offset(k) + column * 2;
            store_as(units, values.scales[k / kGroups.block]);
            if constexpr (kGroups.has_offsets) {
                store_as(units + kUnitBytes, values.offsets[k / kGroups.block]);
            }
        }
        for (int64_t k = 0; kHasSteps && k < width; k += kGroups.size) {
            char* steps = micro_panel + group_offset(k) + kNumberBytes + column;
            steps[0] = static_cast<char>(values.steps[k / kGroups.size]);
            if constexpr (kGroups.has_offsets) {
                steps[kColumns] = static_cast<char>(values.offset_steps[k / kGroups.size]);
            }
        }
        for (int64_t k = 0; k < width; k += kWordInputs) {
            char word[4];
            for (int byte = 0; byte < 4; ++byte) {
                word[byte] = Numbers::byte_of(values.numbers + k + byte);
            }
            __builtin_memcpy(micro_panel + offset(column, k), word, sizeof(word));
        }
    }

    /// The scales, or the offsets, of one group.
    template <bool kOffsets>
    OUTRIDER_INLINE static Vec scales(const char* units, const char* group, int64_t column) {
        const Vec unit = from_float16(load_as<HalfVec>(units + (kOffsets ? kUnitBytes : 0) + column * 2));
        if constexpr (!kHasSteps) {
            return unit;
        }
        return unit * load(reinterpret_cast<const int8_t*>(group + kNumberBytes + (kOffsets ? kColumns : 0) +
                                                           column));
    }

    /// out = factor * the dequantised values of one column.
    static void load_row(const char* micro_panel, int64_t column, int64_t width, float factor, float* out) {
        const int64_t first = column / kLanes * kLanes;
        for (int64_t group = 0; group < width; group += kGroups.size) {
            const char* units = micro_panel + block_offset(group);
            const char* weights = micro_panel + group_offset(group);
            const float scale = scales<false>(units, weights, first)[column - first];
            for (int64_t k = group; k < group + kGroups.size; ++k) {
                const auto number =
                    static_cast<float>(Numbers::load(micro_panel[offset(column, k)], part(k)));
                float value = number * scale;
                if constexpr (kGroups.has_offsets) {
                    value += scales<true>(units, weights, first)[column - first];
                }
                out[k] = value * factor;
            }
        }
    }

    static size_t input_bytes(int in_features) { return GroupedRow<kGroups.size>::bytes(in_features); }
    static void prepare_row(const float* values, int in_features, void* to) {
        GroupedRow<kGroups.size>::template prepare<Sum>(values, in_features, Numbers::kZero, to);
    }

    /// Some blocks of one micro-panel's product.
    struct Slice {
        const char* values;  // values of the first row; the next row is input_stride bytes further
        const char* terms;   // GroupTerms of each group, likewise
        int64_t input_stride;
        const char* weights;  // [blocks, kBlockBytes]
        int64_t blocks;
        float* sums;  // [rows, kColumns]

        OUTRIDER_INLINE const GroupTerms& group_terms(int64_t row, int64_t group) const {
            return reinterpret_cast<const GroupTerms*>(terms + row * input_stride)[group];
        }

        Slice from(int64_t block, int64_t count) const {
            return {values + block * kGroups.block,
                    terms + block * kGroupsOfBlock * static_cast<int64_t>(sizeof(GroupTerms)),
                    input_stride,
                    weights + block * kBlockBytes,
                    count,
                    sums};
        }
    };

    /// Adds a group's part to the sum of a row: all rows use this one order of operations.
    OUTRIDER_INLINE static Vec added(Vec total, const Sum& sum, const GroupTerms& terms, Vec scale,
                                     Vec offset) {
        const Vec exact = __builtin_convertvector(sum.total(), Vec);
        const Vec scaled = multiply_add(exact * terms.scale, scale, total);
        return kGroups.has_offsets ? multiply_add(splat(terms.sum), offset, scaled) : scaled;
    }

    /// Computes the products of one group.
    template <int kRows>
    OUTRIDER_INLINE static void multiply(const char* values, int64_t stride, const char* numbers,
                                         Sum (&sums)[kRows][kVectors]) {
        for (int word = 0; word < kWords; ++word) {
            for (int part = 0; part < Numbers::kParts; ++part) {
                ByteVec four[kVectors];
                OUTRIDER_UNROLLED
                for (int vector = 0; vector < kVectors; ++vector) {
                    four[vector] = Numbers::part(
                        load_as<ByteVec>(numbers + word * kWordBytes + vector * sizeof(ByteVec)), part);
                }
                OUTRIDER_UNROLLED
                for (int row = 0; row < kRows; ++row) {
                    const auto input =
                        splat(load_as<int32_t>(values + row * stride + word * kWordInputs + part * 4));
                    OUTRIDER_UNROLLED
                    for (int vector = 0; vector < kVectors; ++vector) {
                        sums[row][vector].add(four[vector], bit_cast<ByteVec>(input));
                    }
                }
            }
        }
    }

    template <int kRows>
    OUTRIDER_INLINE static void add_group(const Slice& slice, int64_t first_row, int64_t group,
                                          const char* units, const char* weights) {
        const char* values = slice.values + first_row * slice.input_stride + group * kGroups.size;
        Sum products[kRows][kVectors];
        OUTRIDER_UNROLLED
        for (int row = 0; row < kRows; ++row) {
            OUTRIDER_UNROLLED
            for (int vector = 0; vector < kVectors; ++vector) {
                products[row][vector].start(slice.group_terms(first_row + row, group).start);
            }
        }
        multiply<kRows>(values, slice.input_stride, weights, products);
        OUTRIDER_UNROLLED
        for (int vector = 0; vector < kVectors; ++vector) {
            const Vec scale = scales<false>(units, weights, vector * kLanes);
            const Vec offset =
                kGroups.has_offsets ? scales<kGroups.has_offsets>(units, weights, vector * kLanes) : Vec{};
            OUTRIDER_UNROLLED
            for (int row = 0; row < kRows; ++row) {
                float* sums = slice.sums + (first_row + row) * kColumns + vector * kLanes;
                const GroupTerms& terms = slice.group_terms(first_row + row, group);
                store(sums, added(load(sums), products[row][vector], terms, scale, offset));
            }
        }
    }

    template <int kRows>
    static void accumulate(const Slice& slice, int64_t first_row, Ahead ahead) {
        for (int64_t block = 0; block < slice.blocks; ++block) {
            const char* units = slice.weights + block * kBlockBytes;
            for (int64_t group = 0; group < kGroupsOfBlock; ++group) {
                ahead.fetch();
                add_group<kRows>(slice, first_row, block * kGroupsOfBlock + group, units,
                                 units + kHeadBytes + group * kGroupBytes);
            }
        }
    }

    template <bool kIsForMany>
    static void add_slice(const Slice& slice, int64_t rows, const char* next, int64_t next_bytes) {
        if constexpr (kIsForMany) {
            TiledGroups<GroupedMicroPanel>::add(slice, rows, {next, next + next_bytes, kFetchedLines});
        } else {
            for_row_blocks<kRowBlock>(rows, next, next_bytes, kFetchedLines,
                                      [&](auto count, int64_t first, Ahead ahead) {
                                          accumulate<count.value>(slice, first, ahead);
                                      });
        }
    }

    /// Adds the products with `rows` rows to `whole.sums`; `next` is the memory that is read next.
    template <bool kIsForMany>
    static void add(const Slice& whole, int64_t rows, const char* next) {
        for (int64_t block = 0; block < whole.blocks; block += kSlice) {
            const Slice slice = whole.from(block, smaller(kSlice, whole.blocks - block));
            const char* ahead = block + kSlice >= whole.blocks ? next : slice.weights + kSlice * kBlockBytes;
            add_slice<kIsForMany>(slice, rows, ahead, slice.blocks * kBlockBytes);
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
