// Tiles: AMX's tile instructions in plain C++, for tests on machines without them (Intel's Software
// Developer's Manual, volume 2). Shapes that the processor would reject abort the process.
#pragma once

#include "cpu/tiles/tile_config.h"

namespace outrider::cpu::OUTRIDER_ISA {

struct Tiles {
    static void configure(const TileConfig& config) {
        for (int tile = 0; tile < 8; ++tile) {
            const bool is_empty = config.rows[tile] == 0 && config.row_bytes[tile] == 0;
            const bool fits = config.rows[tile] > 0 && config.rows[tile] <= kTileRows &&
                              config.row_bytes[tile] > 0 && config.row_bytes[tile] <= kTileRowBytes;
            if (config.palette != 1 || config.start_row != 0 || !(is_empty || fits)) {
                __builtin_trap();
            }
        }
        shapes() = config;
        __builtin_memset(bytes(0), 0, sizeof(uint8_t[8][kTileRows][kTileRowBytes]));
    }
    static void release() { shapes() = TileConfig{.palette = 0}; }

    template <int kTile>
    static void load(const void* from, int64_t stride) {
        zero<kTile>();
        for (int row = 0; row < rows_of(kTile); ++row) {
            __builtin_memcpy(bytes(kTile, row), static_cast<const char*>(from) + row * stride,
                             shapes().row_bytes[kTile]);
        }
    }
    template <int kTile>
    static void store(void* to, int64_t stride) {
        for (int row = 0; row < rows_of(kTile); ++row) {
            __builtin_memcpy(static_cast<char*>(to) + row * stride, bytes(kTile, row),
                             shapes().row_bytes[kTile]);
        }
    }
    template <int kTile>
    static void zero() {
        __builtin_memset(bytes(kTile), 0, kTileRows * kTileRowBytes);
    }

    /// Adds even and odd products separately, then their sum, as TDPBF16PS does. Unlike TDPBF16PS, it does
    /// not treat subnormal numbers as zero.
    template <int kSums, int kRows, int kWeights>
    static void multiply_bf16() {
        for_each_sum<kSums, kRows, kWeights>([](int row, int column, int depth) {
            float even = 0.0f;
            float odd = 0.0f;
            for (int k = 0; k < depth; ++k) {
                even = __builtin_fmaf(bf16(kRows, row, 2 * k), bf16(kWeights, k, 2 * column), even);
                odd = __builtin_fmaf(bf16(kRows, row, 2 * k + 1), bf16(kWeights, k, 2 * column + 1), odd);
            }
            add(kSums, row, column, even + odd);
        });
    }
    template <int kSums, int kRows, int kWeights>
    static void multiply_int8() {
        for_each_sum<kSums, kRows, kWeights>([](int row, int column, int depth) {
            int32_t sum = 0;
            for (int k = 0; k < depth; ++k) {
                for (int byte = 0; byte < 4; ++byte) {
                    sum += static_cast<int8_t>(bytes(kRows, row)[4 * k + byte]) *
                           bytes(kWeights, k)[4 * column + byte];
                }
            }
            add(kSums, row, column, sum);
        });
    }

  private:
    static TileConfig& shapes() {
        static thread_local TileConfig shapes{.palette = 0};
        return shapes;
    }
    static uint8_t* bytes(int tile, int row = 0) {
        alignas(64) static thread_local uint8_t all[8][kTileRows][kTileRowBytes];
        return all[tile][row];
    }
    static int rows_of(int tile) {
        if (shapes().palette != 1 || shapes().rows[tile] == 0) {
            __builtin_trap();
        }
        return shapes().rows[tile];
    }

    /// Calls body(row, column, number of pairs or quadruples of K).
    template <int kSums, int kRows, int kWeights, typename Body>
    static void for_each_sum(const Body& body) {
        const TileConfig& config = shapes();
        const int depth = config.row_bytes[kRows] / 4;
        const bool fits = rows_of(kSums) == rows_of(kRows) && rows_of(kWeights) == depth &&
                          config.row_bytes[kSums] == config.row_bytes[kWeights];
        if (!fits || kSums == kRows || kSums == kWeights || kRows == kWeights) {
            __builtin_trap();
        }
        for (int row = 0; row < rows_of(kSums); ++row) {
            for (int column = 0; column < config.row_bytes[kSums] / 4; ++column) {
                body(row, column, depth);
            }
        }
    }

    static float bf16(int tile, int row, int at) {
        uint16_t half;
        __builtin_memcpy(&half, bytes(tile, row) + 2 * at, sizeof(half));
        return bit_cast<float>(static_cast<uint32_t>(half) << 16);
    }
    template <typename Total>
    static void add(int tile, int row, int column, Total value) {
        uint8_t* at = bytes(tile, row) + 4 * column;
        Total sum;
        __builtin_memcpy(&sum, at, sizeof(sum));
        sum += value;
        __builtin_memcpy(at, &sum, sizeof(sum));
    }
};

}  // namespace outrider::cpu::OUTRIDER_ISA
