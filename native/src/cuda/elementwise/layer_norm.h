#pragma once

#include "cuda/runtime/stream.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

/// residual_norm for a layer norm, without a norm of the delta.
void layer_norm(const Stream& stream, const ResidualNorm& op);

}  // namespace outrider::cuda
