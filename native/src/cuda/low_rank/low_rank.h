#pragma once

#include "cuda/runtime/stream.h"
#include "outrider/device/low_rank.h"

namespace outrider::cuda {

void low_rank(const Stream& stream, const LowRank& op);

}  // namespace outrider::cuda
