#pragma once

#include "cuda/runtime/stream.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

/// The residual's addition and norm where that is a layer norm, and the delta has none.
void layer_norm(const Stream& stream, const ResidualNorm& op);

}  // namespace outrider::cuda
