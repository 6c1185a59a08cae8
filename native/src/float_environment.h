// FloatEnvironment: the floating-point state in which every operation runs.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace outrider {

/// Sets round to nearest, subnormals kept and no traps during its lifetime. Otherwise the caller's state,
/// which another library may have changed (often to flush to zero), would change the results.
class FloatEnvironment {
  public:
    FloatEnvironment(const FloatEnvironment&) = delete;
    FloatEnvironment& operator=(const FloatEnvironment&) = delete;

#if defined(__x86_64__)
    FloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(kDefault); }
    ~FloatEnvironment() { _mm_setcsr(saved_); }

  private:
    static constexpr unsigned kDefault = 0x1F80;  // all exceptions masked, every other bit of MXCSR clear
    unsigned saved_;
#else
    FloatEnvironment() {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~FloatEnvironment() { std::fesetenv(&saved_); }

  private:
    std::fenv_t saved_;
#endif
};

}  // namespace outrider
