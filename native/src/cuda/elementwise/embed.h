#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/weights/weight_view.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

void embed(const Stream& stream, const Embed& op, const WeightView& table);

}  // namespace outrider::cuda
