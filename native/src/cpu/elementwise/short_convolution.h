// The short convolution over a sequence's positions (LFM2): stores a row's own input, and convolves the
// stored inputs.
#pragma once

#include "cpu/vec/vec.h"
#include "outrider/device/operations.h"

namespace outrider::cpu::OUTRIDER_ISA {

/// The memory of one position's stored input.
template <typename T>
OUTRIDER_INLINE T* stored_input(const ShortConvolution& op, const int32_t* table, int64_t position) {
    const int64_t slot = table[position / kBlockSize] * int64_t{kBlockSize} + position % kBlockSize;
    return static_cast<T*>(op.cache.data) + slot * op.cache.width;
}

inline const int32_t* block_table(const RowPlaces& places, int64_t row) {
    return places.block_tables + places.sequences[row] * static_cast<int64_t>(places.max_blocks);
}

template <typename T>
inline void store_input(const ShortConvolution& op, int64_t row, int64_t first, int64_t end) {
    const int64_t width = op.cache.width;
    const float* factors = op.projected + row * 3 * width;
    const float* values = factors + 2 * width;
    T* to = stored_input<T>(op, block_table(op.places, row), op.places.positions[row]);
    for (int64_t at = first; at < end; at += kLanes) {
        const int64_t count = end - at;
        store_first(to + at, load_first(factors + at, count) * load_first(values + at, count), count);
    }
}

template <typename T, typename Out>
inline void convolve_columns(const ShortConvolution& op, int64_t row, Out* out, int64_t first, int64_t end) {
    const int64_t width = op.cache.width;
    const float* gates = op.projected + (row * 3 + 1) * width;
    const int32_t* table = block_table(op.places, row);
    const int64_t before = op.places.positions[row] - (op.num_taps - 1);
    for (int64_t at = first; at < end; at += kLanes) {
        const int64_t count = end - at;
        Vec sum = op.bias ? load_first(op.bias + at, count) : Vec{};
        for (int64_t tap = larger(0, -before); tap < op.num_taps; ++tap) {
            const T* input = stored_input<T>(op, table, before + tap);
            sum = multiply_add(load_first(op.taps + tap * width + at, count), load_first(input + at, count),
                               sum);
        }
        store_first(out + at, load_first(gates + at, count) * sum, count);
    }
}

template <typename T>
inline void convolve_row(const ShortConvolution& op, int64_t row, int64_t first, int64_t end) {
    const int64_t at = row * op.out.stride;
    if (op.out.format == Format::bf16) {
        convolve_columns<T>(op, row, static_cast<BFloat16*>(op.out.data) + at, first, end);
    } else {
        convolve_columns<T>(op, row, static_cast<float*>(op.out.data) + at, first, end);
    }
}

inline void store_conv_input(const ShortConvolution& op, int64_t row, int64_t first, int64_t end) {
    if (op.cache.format == Format::bf16) {
        store_input<BFloat16>(op, row, first, end);
    } else {
        store_input<float>(op, row, first, end);
    }
}

inline void convolve(const ShortConvolution& op, int64_t row, int64_t first, int64_t end) {
    if (op.cache.format == Format::bf16) {
        convolve_row<BFloat16>(op, row, first, end);
    } else {
        convolve_row<float>(op, row, first, end);
    }
}

}  // namespace outrider::cpu::OUTRIDER_ISA
