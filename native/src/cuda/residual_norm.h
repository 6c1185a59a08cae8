#pragma once

#include "cuda/stream.h"
#include "outrider/operations.h"

namespace outrider::cuda {

void residual_norm(const Stream& stream, const ResidualNorm& op);

}  // namespace outrider::cuda
