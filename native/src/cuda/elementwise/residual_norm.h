#pragma once

#include "cuda/runtime/stream.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

void residual_norm(const Stream& stream, const ResidualNorm& op);

}  // namespace outrider::cuda
