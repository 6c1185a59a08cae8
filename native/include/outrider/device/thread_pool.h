// ThreadPool: persistent threads that share the tasks of one parallel loop at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace outrider {

constexpr int kMostThreads = 1 << 12;

/// Consists of the calling thread and `size() - 1` workers. Any thread may run any task, so a task must
/// compute the same bits on all of them: every thread, the caller included, works under the same
/// floating-point environment.
class ThreadPool {
  public:
    /// Throws std::invalid_argument when threads < 1 or beyond the limit, DeviceError if the system cannot
    /// create more threads.
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    /// The number of threads that run a loop, the caller included.
    int size() const { return static_cast<int>(workers_.size()) + 1; }

    /// Calls body(0) ... body(count - 1), each once, in any order and on any thread; returns when all are
    /// done. Rethrows the first exception of a body. Not to be called from within a body.
    template <typename Body>
    void parallel_for(int64_t count, const Body& body) {
        static_assert(std::is_invocable_v<const Body&, int64_t>, "body takes the index of a task");
        run(
            count, [](const void* context, int64_t index) { (*static_cast<const Body*>(context))(index); },
            &body);
    }

  private:
    using Invoke = void (*)(const void* context, int64_t index);
    struct Job {
        Invoke invoke = nullptr;
        const void* context = nullptr;
        int64_t count = 0;
    };

    void pin_workers();
    void stop();
    void run(int64_t count, Invoke invoke, const void* context);
    void publish(const Job& job);
    void retire();
    void take_tasks();
    void work();
    uint64_t await_job(uint64_t seen);

    Job job_;
    std::exception_ptr failure_;
    std::atomic<int64_t> next_{0};
    std::atomic<uint64_t> generation_{1};  // even: a job is open; odd: none is
    std::atomic<int> active_{0};           // workers that may be reading job_
    std::atomic<int> sleepers_{0};
    std::atomic<bool> stop_{false};
    std::mutex callers_;  // one loop at a time
    std::mutex mutex_;    // guards failure_ and sleep
    std::condition_variable wake_;
    std::vector<std::thread> workers_;
};

}  // namespace outrider
