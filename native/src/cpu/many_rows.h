// ManyRows: from how many rows a kernel's way for many rows is the faster one, as measured on this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "cpu/cpu_weight.h"
#include "outrider/device/thread_pool.h"

namespace outrider::cpu {

class ManyRows {
  public:
    /// `fixed` takes the place of measurements.
    explicit ManyRows(std::optional<int> fixed) : fixed_(fixed) {}

    /// Whether so many rows are many for this kernel.
    bool are(int64_t rows, const ProductKernel& kernel) const;

    /// Measures a weight's kernel, once; its results do not matter. Returns the fewest rows that are many, or nullopt
    /// if the kernel has one way only, was measured before, or the weight is too small.
    std::optional<int> measure(ThreadPool& pool, const CpuWeight& weight);

  private:
    std::optional<int> fixed_;
    std::unordered_map<const ProductKernel*, int> measured_;
};

}  // namespace outrider::cpu
