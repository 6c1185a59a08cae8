#include "thread_block.h"

#include <cstdio>
#include <cstdlib>

namespace outrider::cuda {
namespace {

constexpr size_t kStackBytes = size_t{1} << 17;

}  // namespace

ThreadBlock& ThreadBlock::current() {
    static thread_local ThreadBlock block;
    return block;
}

void ThreadBlock::run(int threads, unsigned order, const std::function<void(int)>& body) {
    while (static_cast<int>(all_.size()) < threads) {
        all_.push_back(std::make_unique<Thread>());
        all_.back()->stack.reset(new char[kStackBytes]);
    }
    warps_.assign((threads + kWarp - 1) / kWarp, Warp{});
    body_ = &body;
    threads_ = left_ = threads;
    at_barrier_ = 0;
    step_ = order % 2 == 0 ? 1 : threads - 1;
    for (int thread = 0; thread < threads; ++thread) {
        all_[thread]->state = State::ready;
    }
    if (_setjmp(outside_) == 0) {
        resume(static_cast<int>(order % threads));
    }
}

void ThreadBlock::begin() {
    current().live();
}

/// A fiber lives on from block to block.
void ThreadBlock::live() {
    for (;;) {
        (*body_)(running_);
        end_thread();
    }
}

void ThreadBlock::end_thread() {
    Thread& thread = *all_[running_];
    thread.state = State::ended;
    --left_;
    if (_setjmp(thread.place) == 0) {
        if (left_ == 0) {
            _longjmp(outside_, 1);
        }
        resume(next());
    }
}

void ThreadBlock::wait(State reason) {
    Thread& thread = *all_[running_];
    thread.state = reason;
    if (_setjmp(thread.place) == 0) {
        resume(next());
    }
}

void ThreadBlock::release(int first, int count, State reason) {
    for (int thread = first; thread < first + count; ++thread) {
        if (all_[thread]->state == reason) {
            all_[thread]->state = State::ready;
        }
    }
}

int ThreadBlock::next() const {
    for (int i = 0, thread = running_; i < threads_; ++i) {
        thread = (thread + step_) % threads_;
        if (all_[thread]->state == State::ready) {
            return thread;
        }
    }
    fail("threads wait for others that have ended or wait elsewhere");
}

void ThreadBlock::resume(int index) {
    Thread& thread = *all_[index];
    running_ = index;
    if (thread.is_started) {
        _longjmp(thread.place, 1);
    }
    thread.is_started = true;
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = thread.stack.get();
    thread.start.uc_stack.ss_size = kStackBytes;
    thread.start.uc_link = nullptr;
    makecontext(&thread.start, begin, 0);
    setcontext(&thread.start);
}

void ThreadBlock::synchronize() {
    if (++at_barrier_ < threads_) {
        wait(State::at_barrier);
        return;
    }
    at_barrier_ = 0;
    release(0, threads_, State::at_barrier);
}

void ThreadBlock::exchange(void* operands, WarpOperation operation) {
    Warp& warp = warps_[running_ / kWarp];
    if (warp.arrived == 0) {
        warp.operation = operation;
    } else if (warp.operation != operation) {
        fail("the lanes of a warp are at different operations");
    }
    warp.lanes[running_ % kWarp] = operands;
    if (++warp.arrived < kWarp) {
        wait(State::in_exchange);
        return;
    }
    operation(warp.lanes);
    warp.arrived = 0;
    release(running_ / kWarp * kWarp, kWarp, State::in_exchange);
}

void ThreadBlock::fail(const char* reason) {
    std::fprintf(stderr, "the emulation of CUDA: %s\n", reason);
    std::abort();
}

}  // namespace outrider::cuda
