// Signals between emulated GPUs, which compute in threads of the host; replaces cuda/gpu/peers.cuh.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace outrider::cuda {

/// Does nothing: all threads of a block are one thread of the host, whose signal publishes what they wrote.
inline void publish_to_peers() {}

inline void signal_peer(uint32_t* flag, uint32_t number) {
    std::atomic_ref<uint32_t>(*flag).store(number, std::memory_order_release);
}

inline void wait_for_peer(const uint32_t* flag, uint32_t number) {
    std::atomic_ref<uint32_t> seen(*const_cast<uint32_t*>(flag));
    while (static_cast<int32_t>(seen.load(std::memory_order_acquire) - number) < 0) {
        std::this_thread::yield();
    }
}

}  // namespace outrider::cuda
