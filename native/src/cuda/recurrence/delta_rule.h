// The gated delta rule, and the gates beside it (Qwen 3.5).
#pragma once

#include <cstddef>

#include "cuda/runtime/stream.h"
#include "outrider/device/state_operations.h"

namespace outrider::cuda {

/// The floats of scratch that the rule needs for so many rows and sequences.
size_t delta_scratch(const DeltaShape& shape, int rows, int sequences, int ring_rows);

void delta_rule(const Stream& stream, const DeltaRule& op);
void gated_norm(const Stream& stream, const GatedNorm& op);
void sigmoid_gate(const Stream& stream, const SigmoidGate& op);

}  // namespace outrider::cuda
