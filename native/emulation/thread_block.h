// ThreadBlock: runs one block's threads as fibers of the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "emulation/fiber.h"
#include "emulation/pending_copies.h"
#include "emulation/pending_multiplications.h"
#include "emulation/tensor_core.h"

namespace outrider::cuda {

constexpr int kWarp = 32;

/// Runs a thread until it waits for others or has ended; one warp runs as far as possible before the next, in
/// an order that differs between blocks. Errors of a kernel abort the process with a message: lanes of a warp
/// at different operations, or a barrier that some threads never reach.
class ThreadBlock {
  public:
    /// Computes the results of all lanes of a warp from the operands of all of them.
    using WarpOperation = void (*)(void* const (&lanes)[kWarp]);

    /// The block of the calling thread.
    static ThreadBlock& current();

    /// Runs whole warps; returns when every thread has ended. `order` decides which thread runs first, and
    /// which next.
    void run(int threads, const TensorCore& tensor_core, unsigned order,
             const std::function<void(int)>& body);

    // The following functions are called by the block's threads.

    /// Waits for all threads of the block.
    void synchronize();
    /// Waits for the threads 0 ... count - 1, which are whole warps; this is one of them.
    void synchronize_first(unsigned count);
    /// Lets other threads run while this one waits for them. Aborts the process if none of them makes
    /// progress.
    void pause();
    /// Notes that something has happened that a thread may wait for.
    void note_progress() { pauses_ = 0; }
    void begin_copy_for(const void* barrier, const PendingCopy& copy) {
        copies_for_.push_back({barrier, copy});
    }
    /// Makes the copies that signal this barrier, and returns their bytes.
    int make_copies_for(const void* barrier);
    const TensorCore& tensor_core() const { return tensor_core_; }
    /// The pending copies of the calling thread.
    PendingCopies& copies() { return copies_[running_]; }
    PendingMultiplications& multiplications() { return multiplications_[running_]; }
    /// Passes in this lane's operands, and waits for those of the other lanes.
    void exchange(void* operands, WarpOperation operation);

  private:
    using Turns = uint32_t;  // a set of a warp's lanes, by the order in which they run
    static constexpr Turns kAll = 0xFFFFFFFF;

    struct Warp {
        Turns ready = kAll;  // may run, but are not running
        Turns arrived = 0;
        WarpOperation operation = nullptr;
        void* lanes[kWarp];
    };

    struct CopyFor {
        const void* barrier;
        PendingCopy copy;
    };

    static void begin();
    void live();
    void leave(Fiber& here);
    void hand_over(Fiber& here, unsigned warp, Turns among);
    void release_first(size_t warps);
    [[noreturn]] static void fail(const char* reason);

    std::vector<std::unique_ptr<Fiber>> threads_;
    std::vector<Warp> warps_;
    std::vector<PendingCopies> copies_;
    std::vector<PendingMultiplications> multiplications_;
    std::vector<CopyFor> copies_for_;
    const std::function<void(int)>* body_ = nullptr;
    Fiber outside_;
    TensorCore tensor_core_ = kHopper;
    unsigned order_ = 0;
    unsigned step_ = 1;
    unsigned running_ = 0;  // thread
    unsigned turn_ = 0;     // turn of the running thread in its warp
    unsigned left_ = 0;
    unsigned at_barrier_ = 0;
    unsigned at_first_ = 0;
    unsigned pauses_ = 0;  // since the last progress
};

}  // namespace outrider::cuda
