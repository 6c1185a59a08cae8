// ThreadBlock: one block's threads as fibers of the calling thread.
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

/// Runs threads until each waits for others or has ended, one warp as far as it gets and then the next, in an
/// order of its own for each block. What a kernel may not do ends the process with a message: lanes of a warp
/// at different operations, a barrier that some never reach.
class ThreadBlock {
  public:
    /// Computes what all lanes of a warp get from what all of them hand in.
    using WarpOperation = void (*)(void* const (&lanes)[kWarp]);

    /// The calling thread's.
    static ThreadBlock& current();

    /// Returns when every thread has; they are whole warps. `order` decides which is first, and who is next.
    void run(int threads, const TensorCore& tensor_core, unsigned order,
             const std::function<void(int)>& body);

    // What follows is called by one of the block's threads.

    /// Waits for all threads of the block.
    void synchronize();
    /// Waits for the threads 0 ... count - 1, which are whole warps; this is one of them.
    void synchronize_first(unsigned count);
    /// Lets others run, which this thread waits for. If none of them does anything that others wait for, the process
    /// ends.
    void pause();
    /// Something happened that a thread may wait for.
    void note_progress() { pauses_ = 0; }
    void begin_copy_for(const void* barrier, const PendingCopy& copy) {
        copies_for_.push_back({barrier, copy});
    }
    /// Returns their bytes.
    int make_copies_for(const void* barrier);
    const TensorCore& tensor_core() const { return tensor_core_; }
    /// The calling thread's.
    PendingCopies& copies() { return copies_[running_]; }
    PendingMultiplications& multiplications() { return multiplications_[running_]; }
    /// Hands in this lane's operands and waits for those of the other lanes.
    void exchange(void* operands, WarpOperation operation);

  private:
    using Turns = uint32_t;  // a set of a warp's lanes, by their turns
    static constexpr Turns kAll = 0xFFFFFFFF;

    struct Warp {
        Turns ready = kAll;  // may run, and do not
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
    unsigned running_ = 0;  // a thread
    unsigned turn_ = 0;     // its
    unsigned left_ = 0;
    unsigned at_barrier_ = 0;
    unsigned at_first_ = 0;
    unsigned pauses_ = 0;  // since something happened
};

}  // namespace outrider::cuda
