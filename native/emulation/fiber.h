// Fiber: a function on a stack of its own, which can be suspended anywhere and resumed.
#pragma once

#include <cstddef>
#include <memory>

namespace outrider::cuda {

/// One fiber of a thread runs at a time, until it hands over to another.
class Fiber {
  public:
    /// Represents the caller, on its present stack.
    Fiber() = default;
    /// Calls `body`, which must never return, when another fiber hands over to this one for the first time.
    Fiber(size_t stack_bytes, void (*body)());

    /// Called by the running fiber; returns when another fiber hands over to it again.
    [[gnu::noinline]] void hand_over_to(Fiber& other);

  private:
    [[noreturn, gnu::noinline]] void enter();
    [[noreturn]] void start();

    void* place_[5];  // buffer of __builtin_setjmp
    bool is_started_ = true;
    std::unique_ptr<char[]> stack_;
    size_t stack_bytes_ = 0;
    void (*body_)() = nullptr;
};

}  // namespace outrider::cuda
