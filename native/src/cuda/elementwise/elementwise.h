// Element-wise operations.
#pragma once

#include "cuda/runtime/stream.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

void activate(const Stream& stream, const Activate& op);
void layer_input(const Stream& stream, const LayerInput& op);
void gather_rows(const Stream& stream, const GatherRows& op);
void spread_columns(const Stream& stream, const SpreadColumns& op);
void soft_cap(const Stream& stream, const SoftCap& op);
void read(const Stream& stream, const Read& op);

}  // namespace outrider::cuda
