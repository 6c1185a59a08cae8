#pragma once

#include "cuda/stream.h"
#include "outrider/operations.h"

namespace outrider::cuda {

void attention(const Stream& stream, const Attention& op);

}  // namespace outrider::cuda
