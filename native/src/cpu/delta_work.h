// The gated delta rule, shared among the threads of a pool.
#pragma once

#include "cpu/kernels.h"
#include "outrider/device/state_operations.h"
#include "outrider/device/thread_pool.h"

namespace outrider::cpu {

void run_delta_rule(ThreadPool& pool, const Kernels& kernels, const DeltaRule& op);

}  // namespace outrider::cpu
