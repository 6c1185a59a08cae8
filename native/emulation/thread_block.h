// ThreadBlock: one block's threads as fibers of the calling thread.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace outrider::cuda {

constexpr int kWarp = 32;

/// Runs threads until each waits for others or has ended, in an order of its own for each block. What a
/// kernel may not do ends the process with a message: lanes of a warp at different operations, a barrier that
/// some never reach.
class ThreadBlock {
  public:
    /// Computes what all lanes of a warp get from what all of them hand in.
    using WarpOperation = void (*)(void* const (&lanes)[kWarp]);

    /// The calling thread's.
    static ThreadBlock& current();

    /// Returns when every thread has; `order` decides which is first, and who is next.
    void run(int threads, unsigned order, const std::function<void(int)>& body);

    // What follows is called by one of the block's threads.

    /// Waits for all threads of the block.
    void synchronize();
    /// Hands in this lane's operands and waits for those of the other lanes.
    void exchange(void* operands, WarpOperation operation);

  private:
    enum class State { ready, at_barrier, in_exchange, ended };
    struct Thread {
        std::unique_ptr<char[]> stack;
        ucontext_t start;
        jmp_buf place;
        State state = State::ended;
        bool is_started = false;
    };
    struct Warp {
        void* lanes[kWarp];
        WarpOperation operation = nullptr;
        int arrived = 0;
    };

    static void begin();
    void live();
    void end_thread();
    void wait(State reason);
    void release(int first, int count, State reason);
    int next() const;
    void resume(int thread);
    [[noreturn]] static void fail(const char* reason);

    std::vector<std::unique_ptr<Thread>> all_;
    std::vector<Warp> warps_;
    const std::function<void(int)>* body_ = nullptr;
    jmp_buf outside_;
    int threads_ = 0;
    int step_ = 1;
    int running_ = 0;
    int left_ = 0;
    int at_barrier_ = 0;
};

}  // namespace outrider::cuda
