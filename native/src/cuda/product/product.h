#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/weights/weight_view.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

void product(const Stream& stream, const Product& op, const WeightView& weight);

/// Values that a product of so many rows and output features may keep beside its output.
size_t product_scratch(const Stream& stream, int rows, int out_features);

// One for each format, in a file of its own: they take long to compile.
void product_bf16(const Stream& stream, const Product& op, const WeightView& weight);
void product_int8(const Stream& stream, const Product& op, const WeightView& weight);
void product_int4(const Stream& stream, const Product& op, const WeightView& weight);
void product_fp8(const Stream& stream, const Product& op, const WeightView& weight);

}  // namespace outrider::cuda
