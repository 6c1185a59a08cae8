// The bf16 matrix product on AMX tiles: a tile instruction multiplies up to sixteen rows by sixteen output
// features, thirty-two steps of K at a time. It computes each row by itself, always in the same order, and
// rounds without regard to MXCSR, so the number of rows in a tile cannot be seen in a row's bits.
#pragma once

#include "cpu/product/packed_rows.h"
#include "cpu/product/product_kernel.h"
#include "cpu/vec/vec.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// Packed as [panel][step of K][tile of sixteen features][pair of K][feature][2], K and features padded with
/// zeros.
struct AmxProduct {
    using Value = BFloat16;
    static constexpr int64_t kStep = 32;  // of K
    static constexpr int kTileRows = 16;
    static constexpr int64_t kTileValues = 512;  // 1 KiB
    static constexpr int kTiles = kPanelColumns / kLanes;

    struct alignas(64) TileConfig {
        uint8_t palette = 1;
        uint8_t start_row = 0;
        uint8_t reserved[14] = {};
        uint16_t row_bytes[16] = {};
        uint8_t rows[16] = {};
    };
    static_assert(sizeof(TileConfig) == 64, "as the instruction reads it");

    static int64_t steps(int in_features) { return (in_features + kStep - 1) / kStep; }

    static size_t panel_bytes(int in_features) {
        return static_cast<size_t>(steps(in_features)) * kTiles * kTileValues * sizeof(BFloat16);
    }

    static BFloat16* panel_data(const WeightView& weight, int64_t panel) {
        return static_cast<BFloat16*>(weight.data) + panel * steps(weight.in_features) * kTiles * kTileValues;
    }

    /// Where an output feature's pairs are in the tile of its panel's first step.
    static BFloat16* row_data(const WeightView& weight, int64_t row) {
        const int64_t column = row % kPanelColumns;
        return panel_data(weight, row / kPanelColumns) + column / kLanes * kTileValues + column % kLanes * 2;
    }

    /// Offset of one k from row_data.
    static int64_t offset(int64_t k) {
        return k / kStep * kTiles * kTileValues + k % kStep / 2 * (2 * kLanes) + k % 2;
    }

    // Tiles 0 ... 3 hold the sums, 4 the rows of the input, 5 ... 7 the weights in turn.
    static void configure(int rows) {
        TileConfig config;
        for (int tile = 0; tile < 8; ++tile) {
            config.row_bytes[tile] = 64;
            config.rows[tile] = static_cast<uint8_t>(tile <= 4 ? rows : kTileRows);
        }
        // The compiler believes that the instruction reads eight bytes; without this it drops the other
        // stores.
        asm volatile("" : : "r"(&config) : "memory");
        _tile_loadconfig(&config);
    }

    static void multiply_tiles(const BFloat16* input, int64_t stride_bytes, const BFloat16* weights,
                               int64_t steps, float* out, int64_t out_stride) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int64_t step = 0; step < steps; ++step, input += kStep, weights += kTiles * kTileValues) {
            _tile_loadd(4, input, stride_bytes);
            _tile_loadd(5, weights, 64);
            _tile_dpbf16ps(0, 4, 5);
            _tile_loadd(6, weights + kTileValues, 64);
            _tile_dpbf16ps(1, 4, 6);
            _tile_loadd(7, weights + 2 * kTileValues, 64);
            _tile_dpbf16ps(2, 4, 7);
            _tile_loadd(5, weights + 3 * kTileValues, 64);
            _tile_dpbf16ps(3, 4, 5);
        }
        _tile_stored(0, out, out_stride * sizeof(float));
        _tile_stored(1, out + kLanes, out_stride * sizeof(float));
        _tile_stored(2, out + 2 * kLanes, out_stride * sizeof(float));
        _tile_stored(3, out + 3 * kLanes, out_stride * sizeof(float));
    }

    static void add_bias(const float* bias, float* out, int64_t out_stride, int64_t rows, int64_t columns) {
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = 0; column < columns; column += kLanes) {
                const int64_t count = columns - column;
                float* to = out + row * out_stride + column;
                store_first(to, load_first(to, count) + load_first(bias + column, count), count);
            }
        }
    }

    static void copy_columns(const float* from, float* to, int64_t to_stride, int64_t rows, int64_t columns) {
        for (int64_t row = 0; row < rows; ++row) {
            __builtin_memcpy(to + row * to_stride, from + row * kPanelColumns, columns * sizeof(float));
        }
    }

    static void multiply_panel(const WeightView& weight, const ProductRows& rows, int64_t panel) {
        const BFloat16* weights = panel_data(weight, panel);
        const int64_t first_column = panel * kPanelColumns;
        const int64_t columns = smaller(kPanelColumns, weight.out_features - first_column);
        const int64_t depth = steps(weight.in_features);
        alignas(64) float partial[kTileRows * kPanelColumns];
        int configured = 0;
        for (int64_t first = rows.first_row; first < rows.end_row; first += kTileRows) {
            const int count = static_cast<int>(smaller(kTileRows, rows.end_row - first));
            if (count != configured) {
                configure(count);
                configured = count;
            }
            const auto* input = reinterpret_cast<const BFloat16*>(static_cast<const char*>(rows.input) +
                                                                  first * rows.input_stride);
            float* out = rows.out + first * rows.out_stride + first_column;
            if (columns == kPanelColumns) {
                multiply_tiles(input, rows.input_stride, weights, depth, out, rows.out_stride);
            } else {
                multiply_tiles(input, rows.input_stride, weights, depth, partial, kPanelColumns);
                copy_columns(partial, out, rows.out_stride, count, columns);
            }
            if (rows.bias) {
                add_bias(rows.bias + first_column, out, rows.out_stride, count, columns);
            }
        }
        _tile_release();
    }

    static int64_t multiply_registers(int64_t rounds) {
        configure(kTileRows);
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        _tile_zero(4);
        _tile_zero(5);
        for (int64_t round = 0; round < rounds; ++round) {
            _tile_dpbf16ps(0, 4, 5);
            _tile_dpbf16ps(1, 4, 5);
            _tile_dpbf16ps(2, 4, 5);
            _tile_dpbf16ps(3, 4, 5);
        }
        _tile_release();
        return rounds * 4 * kTileRows * kLanes * kStep * 2;
    }

    static constexpr ProductKernel kernel() {
        using Rows = PackedRows<AmxProduct>;
        return {.panel_bytes = panel_bytes,
                .store_row = Rows::store_row,
                .load_row = Rows::load_row,
                .multiply_panel = multiply_panel,
                .multiply_registers = multiply_registers};
    }
};

using Bf16Product = AmxProduct;

}  // namespace outrider::cpu::OUTRIDER_ISA
