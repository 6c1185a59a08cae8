#include "cuda/product/product.h"
#include "cuda/product/tensor_product.cuh"

namespace outrider::cuda {

void product_bf16(const Stream& stream, const Product& op, const WeightView& weight,
                  const Activate* activate) {
    tensor_product<Bf16Tile>(stream, op, weight, activate);
}

}  // namespace outrider::cuda
