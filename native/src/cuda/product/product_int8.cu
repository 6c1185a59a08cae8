#include "cuda/product/product.h"
#include "cuda/product/tensor_product.cuh"

namespace outrider::cuda {

void product_int8(const Stream& stream, const Product& op, const WeightView& weight,
                  const Activate* activate) {
    tensor_product<Int8Tile>(stream, op, weight, activate);
}

}  // namespace outrider::cuda
