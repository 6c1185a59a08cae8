// Operations of a warpgroup on the host; replaces cuda/gpu/groups.cuh. Multiplications are made when a thread
// waits for them, warp by warp.
#pragma once

#include <cstdint>
#include <cstring>

#include "emulation/launch.cuh"
#include "emulation/pending_multiplications.h"

namespace outrider::cuda {

constexpr int kGroup = 4 * kWarp;

struct RightOperand {
    const char* at;
    int along_k;
    int along_columns;

    RightOperand(const char* place, int second_core, int next_columns)
        : at(place), along_k(second_core), along_columns(next_columns) {}
};

template <typename T, int kCount>
void pin(T (&)[kCount]) {}

inline void begin_multiplying() {}

inline void close_multiplications() {
    ThreadBlock::current().multiplications().close();
}

template <int kColumns>
void multiply_group(float (&sums)[kColumns / 2], const uint32_t (&a)[4], const RightOperand& b) {
    ThreadBlock::current().multiplications().open.push_back(
        {sums, a, b.at, b.along_k, b.along_columns, kColumns});
}

/// Makes all sets of multiplications of a warp's lanes but the last `kept`.
void make_multiplications(PendingMultiplications* const (&lanes)[kWarp], size_t kept);

template <int kOpen>
void wait_for_multiplications() {
    ThreadBlock::current().exchange(&ThreadBlock::current().multiplications(),
                                    [](void* const(&operands)[kWarp]) {
                                        PendingMultiplications* lanes[kWarp];
                                        std::memcpy(lanes, operands, sizeof(lanes));
                                        make_multiplications(lanes, kOpen);
                                    });
}

template <int kThreads>
void synchronize_first() {
    ThreadBlock::current().synchronize_first(kThreads);
}

template <int kCount>
void take_registers() {}
template <int kCount>
void give_registers() {}

}  // namespace outrider::cuda
