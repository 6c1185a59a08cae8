// TiledGroups: the product of many rows with grouped weights on AMX tiles. The sums within a group are exact,
// and GroupedMicroPanel adds them to a row's sum, so the results equal those of the vectors.
#pragma once

#include "cpu/product/product_kernel.h"
#include "cpu/product/row_blocks.h"
#include "cpu/product/tile_sums.h"
#include "cpu/product/unpacked_groups.h"

namespace outrider::cpu::OUTRIDER_ISA {

template <typename MicroPanel>
struct TiledGroups {
    using Groups = UnpackedGroups<MicroPanel>;
    using Slice = typename MicroPanel::Slice;
    static constexpr int kSize = MicroPanel::kGroups.size;
    static constexpr int kSteps = kSize / 4;                       // of four inputs each
    static constexpr int64_t kWordBytes = MicroPanel::kWordBytes;  // four inputs of each feature
    static_assert(MicroPanel::kColumns == kPanelColumns, "a micro-panel is a panel");
    static_assert(kSize <= kTileRowBytes, "a group fits into a tile's row");

    /// Adds the products with `rows` rows; the first block of them prefetches `ahead`.
    static void add(const Slice& slice, int64_t rows, Ahead ahead) {
        const Groups groups(slice.weights, slice.blocks);
        int64_t configured = 0;
        for (int64_t row = 0; row < rows; row += kTileRows) {
            const int64_t count = smaller(kTileRows, rows - row);
            if (count != configured) {
                configure(static_cast<int>(count));
                configured = count;
            }
            add_rows(slice, groups, row, count, row == 0 ? ahead : Ahead{});
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

    /// The tiles multiply a group while the vectors add the one before it: one after the other, either
    /// would wait for the other's results.
    static void add_rows(const Slice& slice, const Groups& groups, int64_t first, int64_t count,
                         Ahead ahead) {
        const char* values = slice.values + first * slice.input_stride;
        const int64_t end = slice.blocks * MicroPanel::kGroupsOfBlock;
        alignas(kCacheLine) int32_t sums[2][kTileRows * kPanelColumns];
        multiply(values, slice.input_stride, groups.numbers(0), sums[0]);
        for (int64_t index = 0; index < end; ++index) {
            ahead.fetch();
            if (const int64_t next = index + 1; next < end) {
                multiply(values + next * kSize, slice.input_stride, groups.numbers(next), sums[next % 2]);
            }
            add_group(slice, groups, first, count, index, sums[index % 2]);
        }
    }

    static void multiply(const char* values, int64_t stride, const char* numbers, int32_t* sums) {
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

    static void add_group(const Slice& slice, const Groups& groups, int64_t first, int64_t count,
                          int64_t index, const int32_t* sums) {
        for (int64_t column = 0; column < kPanelColumns; column += kLanes) {
            const Vec scale = groups.scale(index, column);
            const Vec offset = groups.offset(index, column);
            for (int64_t row = 0; row < count; ++row) {
                const GroupTerms& terms = slice.group_terms(first + row, index);
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
