// A ThreadPool under the load that engines put on it, for ThreadSanitizer to watch: callers at once, workers
// that spin and that sleep, bodies that throw. What the bodies write is no atomic, so the pool alone orders
// it.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

#include "outrider/device/thread_pool.h"

namespace {

constexpr int kLoops = 400;
constexpr int64_t kTasks = 37;
constexpr std::chrono::microseconds kLongerThanSpinning{200};

/// Runs a loop in which the caller waits for a worker to take part. The signal is a relaxed atomic, which
/// orders nothing.
void run_loop(outrider::ThreadPool& pool, std::vector<int64_t>& values) {
    std::atomic<bool> worker_is_here{pool.size() == 1};
    const std::thread::id caller = std::this_thread::get_id();
    pool.parallel_for(kTasks, [&](int64_t task) {
        values[task] += task;
        if (std::this_thread::get_id() != caller) {
            worker_is_here.store(true, std::memory_order_relaxed);
        }
        while (!worker_is_here.load(std::memory_order_relaxed)) {
            std::this_thread::yield();
        }
    });
}

/// Returns whether the exception of the one task that throws came back.
bool rethrows(outrider::ThreadPool& pool, int64_t throwing) {
    try {
        pool.parallel_for(kTasks, [&](int64_t task) {
            if (task == throwing) {
                throw std::runtime_error("asked for");
            }
        });
    } catch (const std::runtime_error&) {
        return true;
    }
    return false;
}

/// Returns whether every task of every loop ran once, and every exception came back.
bool run_loops(outrider::ThreadPool& pool) {
    std::vector<int64_t> values(kTasks);
    int num_caught = 0;
    for (int loop = 0; loop < kLoops; ++loop) {
        run_loop(pool, values);
        num_caught += rethrows(pool, loop % kTasks);
        if (loop % 10 == 0) {
            std::this_thread::sleep_for(kLongerThanSpinning);
        }
    }
    for (int64_t task = 0; task < kTasks; ++task) {
        if (values[task] != task * kLoops) {
            return false;
        }
    }
    return num_caught == kLoops;
}

}  // namespace

int main() {
    for (const int threads : {1, 2, 3, 5}) {
        outrider::ThreadPool pool(threads);
        bool other_is_right = false;
        std::thread other([&] { other_is_right = run_loops(pool); });
        const bool is_right = run_loops(pool);
        other.join();
        if (!is_right || !other_is_right) {
            std::fprintf(stderr, "%d threads: a task was lost or ran twice, or an exception was lost\n",
                         threads);
            return 1;
        }
        std::printf("%d threads: no race in %d loops of each of two callers\n", threads, 2 * kLoops);
    }
    return 0;
}
