// The operations of experts.
#pragma once

#include "cuda/runtime/stream.h"
#include "outrider/device/expert_operations.h"

namespace outrider::cuda {

void route(const Stream& stream, const Route& op);
void expert_products(const Stream& stream, const ExpertProducts& op);
void mix_experts(const Stream& stream, const MixExperts& op);

}  // namespace outrider::cuda
