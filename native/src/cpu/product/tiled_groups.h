// TiledGroups: the product of many rows with grouped weights on AMX tiles. The sums within a group are exact,
// and GroupedMicroPanel adds them to a row's sum, so the results equal those of the vectors.
#pragma once

#include "cpu/product/product_kernel.h"
#include "cpu/product/row_blocks.h"
#include "cpu/product/tile_sums.h"

namespace outrider::cpu::OUTRIDER_ISA {

template <typename MicroPanel>
struct TiledGroups {
    using Numbers = typename MicroPanel::Numbers;
    using Slice = typename MicroPanel::Slice;
    static constexpr int kSize = MicroPanel::kGroups.size;
    static constexpr int kSteps = kSize / 4;                       // of four inputs each
    static constexpr int64_t kWordBytes = MicroPanel::kWordBytes;  // four inputs of each feature
    static_assert(MicroPanel::kColumns == kPanelColumns, "a micro-panel is a panel");
    static_assert(kSize <= kTileRowBytes, "a group fits into a tile's row");
    static constexpr int64_t kFewestRows = 2 * RegisterBlocking::kRows + 1;  // fewer fit into two row blocks

    /// Adds the products with `rows` rows; the first block of them prefetches `ahead`.
    static void add(const Slice& slice, int64_t rows, Ahead ahead) {
        int64_t configured = 0;
        for (int64_t row = 0; row < rows; row += kTileRows) {
            const int64_t count = smaller(kTileRows, rows - row);
            if (count != configured) {
                configure(static_cast<int>(count));
                configured = count;
            }
            add_rows(slice, row, count, row == 0 ? ahead : Ahead{});
        }
        Tiles::release();
    }

  private:
    // Tiles 0 to 3 hold sums, 4 holds rows, 5 to 7 weights in turn.
    static void configure(int rows) {
        TileConfig config;
        for (int tile = 0; tile < 8; ++tile) {
            config.row_bytes[tile] = tile == 4 ? kSize : kTileRowBytes;
            config.rows[tile] = static_cast<uint8_t>(tile <= 4 ? rows : kSteps);
        }
        Tiles::configure(config);
    }

    static void add_rows(const Slice& slice, int64_t first, int64_t count, Ahead ahead) {
        const char* values = slice.values + first * slice.input_stride;
        alignas(kCacheLine) int32_t sums[kTileRows * kPanelColumns];
        for (int64_t group = 0; group < slice.blocks * MicroPanel::kGroupsOfBlock; ++group) {
            const char* units = slice.weights + group / MicroPanel::kGroupsOfBlock * MicroPanel::kBlockBytes;
            const char* weights =
                units + MicroPanel::kHeadBytes + group % MicroPanel::kGroupsOfBlock * MicroPanel::kGroupBytes;
            ahead.fetch();
            multiply(values + group * kSize, slice.input_stride, weights, sums);
            add_group(slice, first, count, group, units, weights, sums);
        }
    }

    static void multiply(const char* values, int64_t stride, const char* numbers, int32_t* sums) {
        alignas(kCacheLine) char bytes[kSteps * kWordBytes];
        if constexpr (Numbers::kParts > 1) {
            unpack(numbers, bytes);
            numbers = bytes;
        }
        Tiles::load<4>(values, stride);
        multiply_tile<0, 5>(numbers);
        multiply_tile<1, 6>(numbers);
        multiply_tile<2, 7>(numbers);
        multiply_tile<3, 5>(numbers);
        store_sums(sums, sums + 2 * kLanes);
    }

    template <int kSums, int kWeights>
    OUTRIDER_INLINE static void multiply_tile(const char* numbers) {
        Tiles::zero<kSums>();
        Tiles::load<kWeights>(numbers + kSums * kTileRowBytes, kWordBytes);
        Tiles::multiply_int8<kSums, 4, kWeights>();
    }

    /// Unpacks a group's numbers to a byte each.
    OUTRIDER_INLINE static void unpack(const char* numbers, char* to) {
        for (int step = 0; step < kSteps; ++step) {
            const char* words = numbers + step / Numbers::kParts * kWordBytes;
            OUTRIDER_UNROLLED
            for (int64_t at = 0; at < kWordBytes; at += sizeof(ByteVec)) {
                store_as(to + step * kWordBytes + at,
                         Numbers::part(load_as<ByteVec>(words + at), step % Numbers::kParts));
            }
        }
    }

    static void add_group(const Slice& slice, int64_t first, int64_t count, int64_t group, const char* units,
                          const char* weights, const int32_t* sums) {
        constexpr bool kHasOffsets = MicroPanel::kGroups.has_offsets;
        for (int64_t column = 0; column < kPanelColumns; column += kLanes) {
            const Vec scale = MicroPanel::template scales<false>(units, weights, column);
            Vec offset = {};
            if constexpr (kHasOffsets) {
                offset = MicroPanel::template scales<true>(units, weights, column);
            }
            for (int64_t row = 0; row < count; ++row) {
                const GroupTerms& terms = slice.group_terms(first + row, group);
                typename MicroPanel::Sum products;
                products.start(terms.start);
                products.sum += load_as<IntVec>(sums + row * kPanelColumns + column);
                float* out = slice.sums + (first + row) * kPanelColumns + column;
                store(out, MicroPanel::added(load(out), products, terms, scale, offset));
            }
        }
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
