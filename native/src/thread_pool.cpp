#include "outrider/device/thread_pool.h"

#include <chrono>
#include <string>

#include "cores.h"
#include "float_environment.h"
#include "outrider/device/device_error.h"
#include "require_range.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace outrider {
namespace {

// The next operation of a pass follows within microseconds; between passes other processes may use the core.
constexpr std::chrono::microseconds kSpinTime{30};
constexpr int kSpinsPerClockRead = 32;

void pause() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// Returns whether the condition came true within the spin time.
template <typename Condition>
bool spin_until(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    do {
        for (int spin = 0; spin < kSpinsPerClockRead; ++spin) {
            if (condition()) {
                return true;
            }
            pause();
        }
    } while (std::chrono::steady_clock::now() < deadline);
    return condition();
}

bool is_open(uint64_t generation) {
    return generation % 2 == 0;
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
    require_range("threads", threads, 1, kMostThreads);
    workers_.reserve(threads - 1);
    try {
        for (int worker = 1; worker < threads; ++worker) {
            workers_.emplace_back([this] {
                name_this_thread("pass");
                work();
            });
        }
        pin_workers();
    } catch (const std::exception& error) {
        const size_t num_started = workers_.size();
        stop();
        throw DeviceError("threads is " + std::to_string(threads) + ", but no more than " +
                          std::to_string(num_started + 1) + " could be started: " + error.what());
    }
}

ThreadPool::~ThreadPool() {
    stop();
}

void ThreadPool::stop() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) {
        worker.join();
    }
}

/// Pins the workers if there are as many threads as cores, since two threads on one core would halve the
/// speed. The caller is not pinned, as threads that it starts would inherit that; the scheduler moves it to
/// the core without a worker.
void ThreadPool::pin_workers() {
    const std::vector<int> cores = available_cores();
    if (cores.size() != workers_.size() + 1) {
        return;
    }
    for (size_t worker = 0; worker < workers_.size(); ++worker) {
        pin(workers_[worker], cores[worker + 1]);
    }
}

void ThreadPool::run(int64_t count, Invoke invoke, const void* context) {
    FloatEnvironment environment;
    if (workers_.empty() || count <= 1) {
        for (int64_t index = 0; index < count; ++index) {
            invoke(context, index);
        }
        return;
    }
    std::lock_guard<std::mutex> one_loop(callers_);
    publish({invoke, context, count});
    take_tasks();
    retire();
    if (failure_) {
        std::rethrow_exception(std::exchange(failure_, nullptr));
    }
}

// A worker joins by raising active_ and then reading generation_; the caller retires a job by making
// generation_ odd and then reading active_. With sequential consistency, either the worker sees that the job
// is closed, or the caller sees the worker and waits. So the caller never waits for a worker that is late or
// asleep.
void ThreadPool::publish(const Job& job) {
    job_ = job;
    next_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1);
    if (sleepers_.load() > 0) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
        }
        wake_.notify_all();
    }
}

void ThreadPool::retire() {
    generation_.fetch_add(1);
    const auto nobody_reads = [this] { return active_.load() == 0; };
    while (!spin_until(nobody_reads)) {
        std::this_thread::yield();
    }
}

void ThreadPool::take_tasks() {
    for (int64_t index; (index = next_.fetch_add(1, std::memory_order_relaxed)) < job_.count;) {
        try {
            job_.invoke(job_.context, index);
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!failure_) {
                failure_ = std::current_exception();
            }
        }
    }
}

void ThreadPool::work() {
    FloatEnvironment environment;
    uint64_t seen = generation_.load() | 1;
    while ((seen = await_job(seen)) != 0) {
        active_.fetch_add(1);
        if (generation_.load() == seen) {
            take_tasks();
        }
        active_.fetch_sub(1);
    }
}

/// Returns the generation of an open job other than `seen`, or 0 when the pool stops.
uint64_t ThreadPool::await_job(uint64_t seen) {
    uint64_t current = seen;
    const auto has_news = [&] {
        current = generation_.load();
        return stop_.load() || (is_open(current) && current != seen);
    };
    if (!spin_until(has_news)) {
        std::unique_lock<std::mutex> lock(mutex_);
        sleepers_.fetch_add(1);
        wake_.wait(lock, has_news);
        sleepers_.fetch_sub(1);
    }
    return stop_.load() ? 0 : current;
}

}  // namespace outrider
