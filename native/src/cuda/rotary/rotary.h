#pragma once

#include "cuda/runtime/stream.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

void rotary_angles(const Stream& stream, const RotaryAngles& op);
void rotate_and_store(const Stream& stream, const RotateAndStore& op);
void store_latents(const Stream& stream, const StoreLatents& op);

}  // namespace outrider::cuda
