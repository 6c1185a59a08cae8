#pragma once

#include "cuda/stream.h"
#include "cuda/weight_view.h"
#include "outrider/operations.h"

namespace outrider::cuda {

void product(const Stream& stream, const Product& op, const WeightView& weight);

}  // namespace outrider::cuda
