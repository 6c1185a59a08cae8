#pragma once

#include "cuda/stream.h"
#include "outrider/operations.h"

namespace outrider::cuda {

void rotary_angles(const Stream& stream, const RotaryAngles& op);
void rotate_and_store(const Stream& stream, const RotateAndStore& op);

}  // namespace outrider::cuda
