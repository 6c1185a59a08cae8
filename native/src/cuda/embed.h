#pragma once

#include "cuda/stream.h"
#include "cuda/weight_view.h"
#include "outrider/operations.h"

namespace outrider::cuda {

void embed(const Stream& stream, const Embed& op, const WeightView& table);

}  // namespace outrider::cuda
