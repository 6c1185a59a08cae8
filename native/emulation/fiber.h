// Fiber: a function on a stack of its own, which may be left anywhere and entered again.
#pragma once

#include <cstddef>
#include <memory>

namespace outrider::cuda {

/// Of all fibers of a thread one runs, until it hands over to another.
class Fiber {
  public:
    /// The caller, on the stack that it has.
    Fiber() = default;
    /// Calls `body`, which never returns, when somebody hands over to it for the first time.
    Fiber(size_t stack_bytes, void (*body)());

    /// Called by the fiber that runs: returns when somebody hands over to it again.
    [[gnu::noinline]] void hand_over_to(Fiber& other);

  private:
    [[noreturn, gnu::noinline]] void enter();
    [[noreturn]] void start();

    void* place_[5];  // what __builtin_setjmp keeps
    bool is_started_ = true;
    std::unique_ptr<char[]> stack_;
    size_t stack_bytes_ = 0;
    void (*body_)() = nullptr;
};

}  // namespace outrider::cuda
