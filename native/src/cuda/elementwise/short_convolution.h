// The short convolution over a sequence's positions (LFM2).
#pragma once

#include "cuda/runtime/stream.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

void short_convolution(const Stream& stream, const ShortConvolution& op);

}  // namespace outrider::cuda
