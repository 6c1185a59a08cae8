// Operations of a warp on the host; replaces cuda/gpu/warp.cuh.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "cuda/values/values.cuh"
#include "cuda/values/words.h"
#include "emulation/launch.cuh"

namespace outrider::cuda {

inline void synchronize_warp() {
    ThreadBlock::current().exchange(nullptr, [](void* const(&)[kWarp]) {});
}

/// The value of the lane whose number differs from the caller's in the bits of `mask`.
template <typename T>
T shuffle_xor(T value, int mask) {
    struct Operands {
        T value;
        int mask;
        T result;
    } operands{value, mask, value};
    ThreadBlock::current().exchange(&operands, [](void* const(&lanes)[kWarp]) {
        for (int lane = 0; lane < kWarp; ++lane) {
            auto* own = static_cast<Operands*>(lanes[lane]);
            own->result = static_cast<Operands*>(lanes[lane ^ own->mask])->value;
        }
    });
    return operands.result;
}

/// Reduces kLanes neighbouring lanes by a tree: first pairs are combined, then fours, and so on. The lanes
/// meet only once, where shuffles would meet at each level.
template <int kLanes = kWarp, typename T, typename Combine>
T reduce_warp(T value, const Combine& combine) {
    struct Operands {
        T value;
        const Combine* combine;
    } operands{value, &combine};
    ThreadBlock::current().exchange(&operands, [](void* const(&lanes)[kWarp]) {
        T values[kWarp];
        for (int lane = 0; lane < kWarp; ++lane) {
            values[lane] = static_cast<const Operands*>(lanes[lane])->value;
        }
        const Combine& combine = *static_cast<const Operands*>(lanes[0])->combine;
        for (int mask = 1; mask < kLanes; mask *= 2) {
            T combined[kWarp];
            for (int lane = 0; lane < kWarp; ++lane) {
                combined[lane] = combine(values[lane], values[lane ^ mask]);
            }
            std::copy(combined, combined + kWarp, values);
        }
        for (int lane = 0; lane < kWarp; ++lane) {
            static_cast<Operands*>(lanes[lane])->value = values[lane];
        }
    });
    return operands.value;
}

/// Computes the multiplication as the emulated GPU's tensor cores do.
inline void mma_m16n8k16(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    struct Operands {
        float* sums;
        const uint32_t* a;
        const uint32_t* b;
    } operands{sums, a, b};
    ThreadBlock::current().exchange(&operands, [](void* const(&lanes)[kWarp]) {
        float left[16][16];
        float right[16][8];
        float sums[16][8];
        for (int lane = 0; lane < kWarp; ++lane) {
            const auto* own = static_cast<const Operands*>(lanes[lane]);
            const int group = lane / 4;
            const int k = lane % 4 * 2;
            for (int which = 0; which < 2; ++which) {
                for (int i = 0; i < 4; ++i) {
                    left[group + i % 2 * 8][k + i / 2 * 8 + which] =
                        bfloat16_value(static_cast<uint16_t>(own->a[i] >> 16 * which));
                }
                for (int i = 0; i < 2; ++i) {
                    right[k + i * 8 + which][group] =
                        bfloat16_value(static_cast<uint16_t>(own->b[i] >> 16 * which));
                }
            }
            for (int i = 0; i < 4; ++i) {
                sums[group + i / 2 * 8][k + i % 2] = own->sums[i];
            }
        }
        ThreadBlock::current().tensor_core().multiply_add(left, right, sums);
        for (int lane = 0; lane < kWarp; ++lane) {
            for (int i = 0; i < 4; ++i) {
                static_cast<const Operands*>(lanes[lane])->sums[i] =
                    sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
            }
        }
    });
}

/// Aborts on a misaligned row, which ends a kernel on a GPU.
inline Words<4> load_transposed(const char* row) {
    struct Operands {
        const char* row;
        Words<4> result;
    } operands{row, {}};
    ThreadBlock::current().exchange(&operands, [](void* const(&lanes)[kWarp]) {
        for (int lane = 0; lane < kWarp; ++lane) {
            auto* own = static_cast<Operands*>(lanes[lane]);
            if (reinterpret_cast<uintptr_t>(own->row) % 16 != 0) {
                std::abort();
            }
            for (int i = 0; i < 8; ++i) {
                const char* from = static_cast<const Operands*>(lanes[i / 2 * 8 + lane % 4 * 2 + i % 2])->row;
                const auto value = reinterpret_cast<const uint16_t*>(from)[lane / 4];
                own->result.words[i / 2] |= uint32_t{value} << 16 * (i % 2);
            }
        }
    });
    return operands.result;
}

}  // namespace outrider::cuda
