// TileSums: sums of products with AMX tiles. One instruction multiplies up to sixteen rows by sixteen output
// features, 64 bytes of K at a time. It computes each row by itself and always in the same order, so a row's
// result depends neither on the other rows nor on their number.
#pragma once

#include "cpu/product/product_kernel.h"
#include "cpu/product/row_blocks.h"
#include OUTRIDER_TILES  // Tiles

namespace outrider::cpu::OUTRIDER_ISA {

/// Tiles 0 to 3 hold sums of a panel's features: 0 and 1 of neighbouring columns from `first` on, 2 and 3
/// from `second` on.
template <typename Total>
OUTRIDER_INLINE void load_sums(const Total* first, const Total* second) {
    constexpr int64_t kStride = kPanelColumns * sizeof(Total);
    Tiles::load<0>(first, kStride);
    Tiles::load<1>(first + kLanes, kStride);
    Tiles::load<2>(second, kStride);
    Tiles::load<3>(second + kLanes, kStride);
}
template <typename Total>
OUTRIDER_INLINE void store_sums(Total* first, Total* second) {
    constexpr int64_t kStride = kPanelColumns * sizeof(Total);
    Tiles::store<0>(first, kStride);
    Tiles::store<1>(first + kLanes, kStride);
    Tiles::store<2>(second, kStride);
    Tiles::store<3>(second + kLanes, kStride);
}

/// `Format` defines the layout and the type of the weights:
///   Total                        the sums' elements
///   kRowStride, kTileStride      bytes between a weight tile's rows, and between the tiles of a step
///   multiply<sums, rows, weights>()
template <typename Format>
struct TileSums {
    using Total = typename Format::Total;
    static constexpr int64_t kColumns = kPanelColumns;
    static constexpr int64_t kTileStepBytes = kColumns * kTileRowBytes;  // bytes of weights
    static constexpr int64_t kBlockRows = 2 * kTileRows;
    static constexpr int64_t kMostRows = 4 * kBlockRows;  // rows that share the loads of a slice of weights
    static constexpr int64_t kSliceSteps = 16;  // steps whose weights for half a panel fit into the L1 cache
    static constexpr int kStepLines = kTileStepBytes / kCacheLine;

    /// Some steps of one panel's product.
    struct Slice {
        const char* input;  // [rows, input_stride]
        int64_t input_stride;
        const char* weights;  // [steps, kTileStepBytes]
        int64_t steps;
        Total* sums;  // [rows, kColumns]

        Slice from_row(int64_t row) const {
            return {input + row * input_stride, input_stride, weights, steps, sums + row * kColumns};
        }
    };

    /// Adds a panel's products with up to kMostRows rows to `whole.sums`; `next` is the memory that is read
    /// next.
    static void add_panel(const Slice& whole, int64_t rows, const char* next) {
        int64_t shape = 0;
        for (int64_t step = 0; step < whole.steps; step += kSliceSteps) {
            const Slice slice{whole.input + step * kTileRowBytes, whole.input_stride,
                              whole.weights + step * kTileStepBytes, smaller(kSliceSteps, whole.steps - step),
                              whole.sums};
            const bool is_last = step + kSliceSteps >= whole.steps;
            const char* line = is_last ? next : slice.weights + kSliceSteps * kTileStepBytes;
            const int64_t fetched = rows > kRowsThatHardwareFeeds ? slice.steps * kTileStepBytes : 0;
            add_blocks(slice, rows, {line, line + fetched, kStepLines}, shape);
        }
        Tiles::release();
    }

    /// Adds a slice's products; the first block of rows prefetches `ahead`.
    static void add_slice(const Slice& slice, int64_t rows, Ahead ahead) {
        int64_t shape = 0;
        add_blocks(slice, rows, ahead, shape);
        Tiles::release();
    }

    static int64_t multiply_registers(int64_t rounds) {
        configure(kTileRows);
        for (int64_t round = 0; round < rounds; ++round) {
            Format::template multiply<0, 4, 6>();
            Format::template multiply<1, 4, 7>();
            Format::template multiply<2, 5, 6>();
            Format::template multiply<3, 5, 7>();
        }
        Tiles::release();
        return rounds * 4 * kTileRows * kTileRows * Format::kStepValues * 2;
    }

  private:
    // Tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 weights. Beyond sixteen rows, tiles 2, 3 and 5 hold the
    // further ones.
    static void configure(int rows) {
        const int first = static_cast<int>(smaller(kTileRows, rows));
        const int second = rows > kTileRows ? rows - kTileRows : first;
        const int counts[8] = {first, first, second, second, first, second, kTileRows, kTileRows};
        TileConfig config;
        for (int tile = 0; tile < 8; ++tile) {
            config.row_bytes[tile] = kTileRowBytes;
            config.rows[tile] = static_cast<uint8_t>(counts[tile]);
        }
        Tiles::configure(config);
    }

    /// `shape` is the number of rows that the tiles are configured for, 0 if they are not.
    OUTRIDER_INLINE static void add_blocks(const Slice& slice, int64_t rows, Ahead ahead, int64_t& shape) {
        for (int64_t row = 0; row < rows; row += kBlockRows) {
            const int64_t count = smaller(kBlockRows, rows - row);
            if (count != shape) {
                configure(static_cast<int>(count));
                shape = count;
            }
            add_block(slice.from_row(row), count, row == 0 ? ahead : Ahead{});
        }
    }

    OUTRIDER_INLINE static void add_block(const Slice& slice, int64_t rows, Ahead ahead) {
        if (rows <= kTileRows) {
            add_rows(slice, ahead);
        } else {
            ahead.lines = (ahead.lines + 1) / 2;
            add_half(slice, 0, ahead);
            add_half(slice, 2, ahead);
        }
    }

    template <int kTile>
    OUTRIDER_INLINE static void load_weights(const char* weights, int64_t tile) {
        Tiles::load<kTile>(weights + tile * Format::kTileStride, Format::kRowStride);
    }

    /// Adds the products of up to sixteen rows with all four tiles of features.
    static void add_rows(const Slice& slice, Ahead& ahead) {
        load_sums(slice.sums, slice.sums + 2 * kLanes);
        const char* input = slice.input;
        const char* weights = slice.weights;
        for (int64_t step = 0; step < slice.steps;
             ++step, input += kTileRowBytes, weights += kTileStepBytes) {
            ahead.fetch();
            Tiles::load<4>(input, slice.input_stride);
            load_weights<6>(weights, 0);
            Format::template multiply<0, 4, 6>();
            load_weights<7>(weights, 1);
            Format::template multiply<1, 4, 7>();
            load_weights<6>(weights, 2);
            Format::template multiply<2, 4, 6>();
            load_weights<7>(weights, 3);
            Format::template multiply<3, 4, 7>();
        }
        store_sums(slice.sums, slice.sums + 2 * kLanes);
    }

    /// Adds the products of 17 to 32 rows with two tiles of features, from `tile` on; each load serves two products.
    static void add_half(const Slice& slice, int64_t tile, Ahead& ahead) {
        Total* sums = slice.sums + tile * kLanes;
        Total* others = sums + kTileRows * kColumns;
        load_sums(sums, others);
        const char* input = slice.input;
        const char* weights = slice.weights;
        for (int64_t step = 0; step < slice.steps;
             ++step, input += kTileRowBytes, weights += kTileStepBytes) {
            ahead.fetch();
            Tiles::load<4>(input, slice.input_stride);
            load_weights<6>(weights, tile);
            Format::template multiply<0, 4, 6>();
            load_weights<7>(weights, tile + 1);
            Format::template multiply<1, 4, 7>();
            Tiles::load<5>(input + kTileRows * slice.input_stride, slice.input_stride);
            Format::template multiply<2, 5, 6>();
            Format::template multiply<3, 5, 7>();
        }
        store_sums(sums, others);
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
