#include "emulation/fiber.h"

#include <ucontext.h>

namespace outrider::cuda {

Fiber::Fiber(size_t stack_bytes, void (*body)())
    : is_started_(false), stack_(new char[stack_bytes]), stack_bytes_(stack_bytes), body_(body) {}

/// Uses the compiler's setjmp and longjmp, which save only three words; the library's save every register,
/// scrambled.
void Fiber::hand_over_to(Fiber& other) {
    if (__builtin_setjmp(place_) == 0) {
        other.enter();
    }
}

void Fiber::enter() {
    if (is_started_) {
        __builtin_longjmp(place_, 1);
    }
    start();
}

void Fiber::start() {
    is_started_ = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack_.get();
    context.uc_stack.ss_size = stack_bytes_;
    context.uc_link = nullptr;
    makecontext(&context, body_, 0);
    setcontext(&context);
    __builtin_unreachable();
}

}  // namespace outrider::cuda
