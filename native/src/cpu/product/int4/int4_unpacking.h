// Int4Unpacking: the product of many rows with four-bit weights, which are unpacked to bytes once for all
// rows. The integers, and so the sums, equal those of the packed product.
#pragma once

#include "cpu/product/int4/int4_layout.h"
#include "cpu/product/int4_dot.h"
#include "cpu/product/integer_product.h"
#include "cpu/product/row_blocks.h"
#include "cpu/vec/vec.h"

#include OUTRIDER_INT8_SUMS  // Int8Sums

namespace outrider::cpu::OUTRIDER_ISA {

struct Int4Unpacking : Int4Layout {
    using Steps = Int8Sums;
    static constexpr int64_t kGroupSteps = kInt4Group / Steps::kStepBytes;
    static constexpr int64_t kUnpackedGroups = (Steps::kIsTiled ? 2 : 1) * Steps::kSlice / kGroupSteps;
    static constexpr int kStepLines = static_cast<int>((kGroupLines + kGroupSteps - 1) / kGroupSteps);
    static constexpr int kTileLines = 2 * kGroupLines;  // per step of 64 inputs

    /// A slice of packed weights, with room for the unpacked integers.
    struct UnpackedSlice {
        const char* packed;  // [groups, kGroupBytes]
        typename Steps::Slice slice;
        char* unpacked;  // slice.weights
    };

    /// The steps and offsets that turn a group's numbers into bytes.
    struct GroupTerms {
        PairVec steps[kVectors];
        ByteVec offsets[kVectors];
    };

    OUTRIDER_INLINE static void read_terms(const char* weights, GroupTerms& terms) {
        OUTRIDER_UNROLLED
        for (int vector = 0; vector < kVectors; ++vector) {
            const auto pair =
                bit_cast<BitsVec>(widen(load_as<HalfVec>(weights + kNumberBytes + vector * sizeof(HalfVec))));
            const ByteVec steps = in_all_bytes<2>(pair);
            const auto zeros = bit_cast<ByteVec>(bit_cast<BitsVec>(steps) * kInt4Offset);
            terms.steps[vector] = bit_cast<PairVec>(bit_cast<BitsVec>(steps) & 0x00FF00FF);
            terms.offsets[vector] = in_all_bytes<3>(pair) - zeros + kInt8Offset;
        }
    }

    /// Copies byte kByte of each lane to all four bytes of the lane.
    template <int kByte>
    OUTRIDER_INLINE static ByteVec in_all_bytes(BitsVec lanes) {
        ByteVec from;
        for (int at = 0; at < static_cast<int>(sizeof(ByteVec)); ++at) {
            from[at] = static_cast<uint8_t>(at / 4 * 4 + kByte);
        }
        return __builtin_shuffle(bit_cast<ByteVec>(lanes), from);
    }

    /// The integers of some weights, as Int8Dot reads them. A number, 0 ... 15, times a step fits into a
    /// byte, so one 16-bit product computes two of them.
    OUTRIDER_INLINE static ByteVec unpacked(ByteVec numbers, const GroupTerms& terms, int vector) {
        return bit_cast<ByteVec>(bit_cast<PairVec>(numbers) * terms.steps[vector]) + terms.offsets[vector];
    }

    OUTRIDER_INLINE static void unpack_words(const char* words, int half, const GroupTerms& terms, char* to,
                                             ByteVec (&bytes)[kVectors]) {
        OUTRIDER_UNROLLED
        for (int vector = 0; vector < kVectors; ++vector) {
            const auto both = load_as<ByteVec>(words + vector * sizeof(ByteVec));
            bytes[vector] = unpacked(halves(both, half), terms, vector);
            store_as(to + vector * sizeof(ByteVec), bytes[vector]);
        }
    }

    template <int kRows>
    OUTRIDER_INLINE static void unpack_step(const char* words, int half, const GroupTerms& terms,
                                            const char* input, int64_t stride, char* to,
                                            IntVec (&totals)[kRows][kVectors]) {
        ByteVec bytes[kVectors];
        unpack_words(words, half, terms, to, bytes);
        OUTRIDER_UNROLLED
        for (int row = 0; row < kRows; ++row) {
            const auto values = Int8Dot::values(load_as<int32_t>(input + row * stride), 0);
            OUTRIDER_UNROLLED
            for (int vector = 0; vector < kVectors; ++vector) {
                totals[row][vector] = Int8Dot::add(totals[row][vector], bytes[vector], values);
            }
        }
    }

    /// The first block of rows unpacks a slice for the following ones while it multiplies.
    template <int kRows>
    static void unpack_and_accumulate(const UnpackedSlice& some, Ahead ahead) {
        const int64_t stride = some.slice.input_stride;
        IntVec totals[kRows][kVectors];
        Steps::load_sums(some.slice.sums, totals);
        const char* packed = some.packed;
        const char* input = some.slice.input;
        char* to = some.unpacked;
        const char* const end = input + some.slice.steps * Steps::kStepBytes;
        do {
            GroupTerms terms;
            read_terms(packed, terms);
            int step = 0;
            do {
                ahead.fetch();
                unpack_step<kRows>(packed, step & 1, terms, input, stride, to, totals);
                packed += (step & 1) * kWordBytes;
                input += Steps::kStepBytes;
                to += Steps::kMicroPanelStepBytes;
            } while (++step < kGroupSteps);
            packed += kGroupBytes - kNumberBytes;
        } while (input < end);
        Steps::store_sums(totals, some.slice.sums);
    }

    static void unpack(const char* packed, int64_t groups, char* to) {
        for (int64_t group = 0; group < groups; ++group, packed += kGroupBytes) {
            GroupTerms terms;
            read_terms(packed, terms);
            for (int step = 0; step < kGroupSteps; ++step, to += Steps::kMicroPanelStepBytes) {
                ByteVec bytes[kVectors];
                unpack_words(packed + step / 2 * kWordBytes, step & 1, terms, to, bytes);
            }
        }
    }

    /// Multiplies a slice. Tiles read it after it has been unpacked; vectors unpack it while they multiply. A
    /// template, so that the compiler discards the branch for tiles in builds without them.
    template <typename Sums = Steps>
    static void add_slice(const UnpackedSlice& slice, int64_t rows, const char* next, int64_t next_bytes) {
        if constexpr (Sums::kIsTiled) {
            unpack(slice.packed, slice.slice.steps / kGroupSteps, slice.unpacked);
            Sums::add_slice(slice.slice, rows, {next, next + next_bytes, kTileLines});
        } else {
            for_row_blocks<Steps::kRowBlock>(
                rows, next, next_bytes, kStepLines, [&](auto count, int64_t first, Ahead ahead) {
                    if (first == 0) {
                        unpack_and_accumulate<count.value>(slice, ahead);
                    } else {
                        Steps::accumulate<count.value>(slice.slice, first, ahead);
                    }
                });
        }
    }

    static void add(const MicroPanelRows& part) {
        alignas(kCacheLine) char bytes[kUnpackedGroups * kGroupSteps * Steps::kMicroPanelStepBytes];
        const int64_t count = groups(part.in_features);
        for (int64_t group = 0; group < count; group += kUnpackedGroups) {
            const int64_t some = smaller(kUnpackedGroups, count - group);
            const char* weights = part.micro_panel + group * kGroupBytes;
            const UnpackedSlice slice{
                weights,
                {part.input + group * kInt4Group, part.input_stride, bytes, some * kGroupSteps, part.sums},
                bytes};
            const bool is_last = group + kUnpackedGroups >= count;
            add_slice(slice, part.rows, is_last ? part.next_micro_panel : weights + some * kGroupBytes,
                      some * kGroupBytes);
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
