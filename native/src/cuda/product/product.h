#pragma once

#include "cuda/runtime/stream.h"
#include "cuda/weights/weight_view.h"
#include "outrider/device/operations.h"

namespace outrider::cuda {

void product(const Stream& stream, const Product& op, const WeightView& weight);

/// Device::activated_product.
void activated_product(const Stream& stream, const Product& op, const WeightView& weight,
                       const Activate& activate);

/// Device::product_scratch.
size_t product_scratch(const Stream& stream, int rows, int out_features, int in_features);

// One function per format, each in a file of its own, since they take long to compile. `activate` may be
// null.
void product_bf16(const Stream& stream, const Product& op, const WeightView& weight,
                  const Activate* activate);
void product_int8(const Stream& stream, const Product& op, const WeightView& weight,
                  const Activate* activate);
void product_int4(const Stream& stream, const Product& op, const WeightView& weight,
                  const Activate* activate);
void product_fp8(const Stream& stream, const Product& op, const WeightView& weight, const Activate* activate);

}  // namespace outrider::cuda
