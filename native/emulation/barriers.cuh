// Barriers, and copies that signal them, on the host; replaces cuda/gpu/barriers.cuh. Copies are made as late
// as allowed, and their destination is NaN until then.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "emulation/thread_block.h"

namespace outrider::cuda {

struct Barrier {
    uint16_t arrivals;    // per phase
    uint16_t left : 15;   // arrivals still missing
    uint16_t parity : 1;  // of the current phase
    int32_t bytes_left;

    void initialise(int count) {
        arrivals = static_cast<uint16_t>(count);
        left = arrivals;
        parity = 0;
        bytes_left = 0;
    }

    void arrive() { arrive_expecting(0); }

    void arrive_expecting(int bytes) {
        bytes_left += bytes;
        --left;
        ThreadBlock::current().note_progress();
        end_if_complete();
    }

    void wait(uint32_t of_parity) {
        while (parity == of_parity) {
            if (left == 0) {
                bytes_left -= ThreadBlock::current().make_copies_for(this);
                end_if_complete();
            } else {
                ThreadBlock::current().pause();
            }
        }
    }

  private:
    void end_if_complete() {
        if (left == 0 && bytes_left == 0) {
            left = arrivals;
            parity ^= 1;
        }
    }
};
static_assert(sizeof(Barrier) == sizeof(uint64_t), "as large as the GPU's");

inline void publish_barriers() {}

/// Aborts on misaligned addresses, which end a kernel on a GPU.
inline void begin_bulk_copy(char* to, const void* from, int bytes, Barrier& arrives_at) {
    if ((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | static_cast<unsigned>(bytes)) %
            16 !=
        0) {
        std::abort();
    }
    std::memset(to, 0xFF, bytes);
    ThreadBlock::current().begin_copy_for(&arrives_at, {to, from, static_cast<size_t>(bytes)});
}

}  // namespace outrider::cuda
