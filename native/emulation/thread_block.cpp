#include "emulation/thread_block.h"

#include <cstdio>
#include <cstdlib>

namespace outrider::cuda {
namespace {

constexpr size_t kStackBytes = size_t{1} << 17;
constexpr size_t kStackBytesApart = 192;  // else all lanes' stacks would share a few sets of the cache

}  // namespace

ThreadBlock& ThreadBlock::current() {
    static thread_local ThreadBlock block;
    return block;
}

void ThreadBlock::run(int threads, const TensorCore& tensor_core, unsigned order,
                      const std::function<void(int)>& body) {
    while (threads_.size() < static_cast<size_t>(threads)) {
        const size_t apart = threads_.size() % kWarp * kStackBytesApart;
        threads_.push_back(std::make_unique<Fiber>(kStackBytes + apart, begin));
    }
    warps_.assign(threads / kWarp, Warp{});
    copies_.resize(threads_.size());
    multiplications_.resize(threads_.size());
    copies_for_.clear();
    body_ = &body;
    tensor_core_ = tensor_core;
    order_ = order;
    step_ = order % 2 == 0 ? 1 : threads - 1;  // forwards or backwards, within a warp and from warp to warp
    running_ = order % threads;
    left_ = threads;
    at_barrier_ = 0;
    at_first_ = 0;
    pauses_ = 0;
    leave(outside_);
}

void ThreadBlock::begin() {
    current().live();
}

/// The body of a fiber, which is reused from block to block.
void ThreadBlock::live() {
    for (;;) {
        (*body_)(running_);
        copies_[running_].forget();
        multiplications_[running_].forget();
        note_progress();
        Fiber& here = *threads_[running_];
        if (--left_ > 0) {
            leave(here);
        } else {
            here.hand_over_to(outside_);
        }
    }
}

/// Hands over to a ready thread: of the running warp if it has one, else of the next warp that does.
void ThreadBlock::leave(Fiber& here) {
    const unsigned own = running_ / kWarp;
    unsigned warp = own;
    while (warps_[warp].ready == 0) {
        warp = (warp + step_) % warps_.size();
        if (warp == own) {
            fail("threads wait for others that have ended or wait elsewhere");
        }
    }
    hand_over(here, warp, kAll);
}

/// Hands over to the first ready thread of a warp in the set `among`.
void ThreadBlock::hand_over(Fiber& here, unsigned warp, Turns among) {
    Turns& ready = warps_[warp].ready;
    turn_ = __builtin_ctz(ready & among);
    ready &= ~(Turns{1} << turn_);
    running_ = warp * kWarp + (order_ + step_ * turn_) % kWarp;
    here.hand_over_to(*threads_[running_]);
}

/// Hands over to later threads of the warp first, then to other warps, so that all have a turn before this
/// thread again.
void ThreadBlock::pause() {
    if (++pauses_ > 2 * warps_.size() * kWarp) {
        fail("threads wait at a barrier at which the others do not arrive");
    }
    Fiber& here = *threads_[running_];
    unsigned warp = running_ / kWarp;
    const Turns later = ~Turns{1} << turn_;
    const bool has_later = (warps_[warp].ready & later) != 0;
    warps_[warp].ready |= Turns{1} << turn_;
    if (has_later) {
        hand_over(here, warp, later);
        return;
    }
    do {
        warp = (warp + step_) % warps_.size();
    } while (warps_[warp].ready == 0);
    hand_over(here, warp, kAll);
}

int ThreadBlock::make_copies_for(const void* barrier) {
    size_t bytes = 0;
    std::erase_if(copies_for_, [&](const CopyFor& pending) {
        if (pending.barrier != barrier) {
            return false;
        }
        pending.copy.make();
        bytes += pending.copy.bytes;
        return true;
    });
    note_progress();
    return static_cast<int>(bytes);
}

void ThreadBlock::synchronize() {
    if (++at_barrier_ < warps_.size() * kWarp) {
        leave(*threads_[running_]);
        return;
    }
    at_barrier_ = 0;
    release_first(warps_.size());
}

void ThreadBlock::synchronize_first(unsigned count) {
    if (++at_first_ < count) {
        leave(*threads_[running_]);
        return;
    }
    at_first_ = 0;
    release_first(count / kWarp);
}

/// All threads of the first `warps` warps have met: makes them ready; this one continues.
void ThreadBlock::release_first(size_t warps) {
    for (size_t warp = 0; warp < warps; ++warp) {
        warps_[warp].ready = kAll;
    }
    warps_[running_ / kWarp].ready &= ~(Turns{1} << turn_);
    note_progress();
}

void ThreadBlock::exchange(void* operands, WarpOperation operation) {
    Warp& warp = warps_[running_ / kWarp];
    if (warp.arrived == 0) {
        warp.operation = operation;
    } else if (warp.operation != operation) {
        fail("the lanes of a warp are at different operations");
    }
    warp.lanes[running_ % kWarp] = operands;
    warp.arrived |= Turns{1} << turn_;
    if (warp.arrived != kAll) {
        leave(*threads_[running_]);
        return;
    }
    operation(warp.lanes);
    note_progress();
    warp.arrived = 0;
    warp.ready = kAll & ~(Turns{1} << turn_);
}

void ThreadBlock::fail(const char* reason) {
    std::fprintf(stderr, "the emulation of CUDA: %s\n", reason);
    std::abort();
}

}  // namespace outrider::cuda
